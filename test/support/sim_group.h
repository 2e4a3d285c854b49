// Ranks of one communicator in the simulator: the real transport, runtime and comm in one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator_core.h"
#include "mccl/communicator.h"
#include "mccl/store.h"
#include "sim/world.h"

namespace mccl {

struct SimGroupOptions {
  std::vector<std::pair<std::string, std::string>> settings;  // by their environment names
  std::optional<PlanPortions> portions;   // instead of those of the link profile
  std::shared_ptr<ProgramProver> prover;  // shared with other groups of this thread; null: its own
};

class SimGroup {
 public:
  // Endpoints for `rank_count` nodes and one communicator of all of them. Aborts when that fails.
  SimGroup(int rank_count, const sim::WorldOptions& world, SimGroupOptions options = {});
  ~SimGroup();

  // Another communicator of the same nodes; its index. The first one is 0.
  size_t add_communicator(const std::string& name);

  int rank_count() const { return static_cast<int>(endpoints_.size()); }
  Communicator& communicator(int rank, size_t index = 0) {
    return *communicators_[index][static_cast<size_t>(rank)];
  }
  sim::World& world() { return world_; }

  // The rank leaves; its communicator() must not be asked for again.
  void destroy_communicator(int rank, size_t index = 0) {
    communicators_[index][static_cast<size_t>(rank)].reset();
  }

  // Runs until every work is done (true) or nothing can happen any more (false).
  bool run(const std::vector<std::shared_ptr<Work>>& works, TimeNs deadline_ns = kNever);

 private:
  sim::World world_;
  std::shared_ptr<Store> store_ = make_memory_store();
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators_;
};

}  // namespace mccl
