// Ranks as threads of one process, each with an endpoint of its own over TCP on loopback.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/endpoint_core.h"
#include "mccl/communicator.h"
#include "mccl/store.h"

namespace mccl {

// Runs `body(communicator)` once per rank, each on a thread of its own, and joins them. The
// endpoints have `settings`, by default loopback only; `portions` replace those of the link
// profile.
inline void run_tcp_ranks(int rank_count, const std::function<void(Communicator&)>& body,
                          std::vector<std::pair<std::string, std::string>> settings = {},
                          const std::optional<PlanPortions>& portions = std::nullopt) {
  settings.emplace_back("MCCL_SOCKET_IFNAME", "=lo");
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < rank_count; ++rank)
    threads.emplace_back([&, rank] {
      EndpointOptions options;
      options.settings = settings;
      Result<std::unique_ptr<Endpoint>> endpoint = Endpoint::create(options);
      if (!endpoint.is_ok()) std::abort();
      if (portions) endpoint.value()->core().override_portions(*portions);
      Result<std::unique_ptr<Communicator>> communicator =
          Communicator::create(*endpoint.value(), *store, rank, rank_count, {});
      if (!communicator.is_ok()) std::abort();
      body(*communicator.value());
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mccl
