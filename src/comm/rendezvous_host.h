// What the endpoint does for a rendezvous, each call with the engine held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/bootstrap.h"
#include "comm/endpoint_core.h"

namespace mccl {

class RendezvousHost final : public BootstrapHost {
 public:
  explicit RendezvousHost(EndpointCore& endpoint) : endpoint_(endpoint) {
    endpoint_.driver().with_engine(
        [this] {
          endpoint_.engine().forget_lost_links();
          failure_count_ = endpoint_.engine().failures().size();
        },
        false);
  }

  void connect(const PeerAddress& peer) override {
    endpoint_.driver().with_engine([&] { endpoint_.engine().connect_now(peer); }, false);
  }

  bool is_connected(uint64_t process_id) override {
    bool is_connected = false;
    endpoint_.driver().with_engine(
        [&] { is_connected = endpoint_.engine().transport().link(process_id).has_wire(); }, true);
    return is_connected;
  }

  std::map<uint64_t, Status> lost_processes() override {
    std::map<uint64_t, Status> lost;
    endpoint_.driver().with_engine([&] { lost = endpoint_.engine().lost_processes(); }, true);
    return lost;
  }

  Status failure() override {
    Status failure;
    endpoint_.driver().with_engine(
        [&] {
          const std::vector<Status>& failures = endpoint_.engine().failures();
          if (failures.size() > failure_count_) failure = failures[failure_count_];
        },
        true);
    return failure;
  }

  void leave(uint64_t meeting, const Status& error) override {
    endpoint_.driver().with_engine(
        [&] {
          endpoint_.engine().transport().visit_links([&](Link& link) {
            if (!link.is_failed()) link.send_leave(meeting, error);
          });
        },
        false);
  }

  void notice(const std::string& text) override { endpoint_.logger().warning(text); }

 private:
  EndpointCore& endpoint_;
  size_t failure_count_ = 0;
};

}  // namespace mccl
