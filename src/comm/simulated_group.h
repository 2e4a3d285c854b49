// Ranks of one process in the simulator: the real transport, runtime and comm, in virtual time and
// one thread. For tests and for tools that foretell what a program will do on a network.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator_core.h"
#include "mccl/communicator.h"
#include "mccl/store.h"
#include "sim/world.h"

namespace mccl {

struct SimulatedGroupOptions {
  Config config = {};  // of every rank; switches and uplinks are the world's where it has none
  std::optional<PlanPortions> portions = {};          // instead of those of the link profile
  std::optional<LinkCosts> costs = {};                // instead of the profile's, to plan by
  std::shared_ptr<ProgramProver> prover = {};         // shared with other groups; null: its own
  std::shared_ptr<ProgramLibrary> library = {};       // likewise; null: by the config, one for all
  std::shared_ptr<const ProvenProgram> program = {};  // EndpointCore::override_program
  // Who is told about the steps of a rank, may be null and must outlive the group. Empty: nobody.
  std::function<StepObserver*(int rank)> observer = {};
  // Ranks look at their deadlines when these have come, also while nothing reaches them; else only
  // when something does, and a run in which nothing can happen any more ends at once.
  bool has_timers = false;
  std::shared_ptr<Store> store = {};  // where ranks meet; null: one of its own
  // Who gets the lines that a rank logs, without the line's end. Empty: standard error.
  std::function<void(int rank, std::string_view line)> log = {};
};

// Belongs to one thread, like its world.
class SimulatedGroup {
 public:
  // Endpoints for `rank_count` nodes of a world of their own; no communicator yet.
  SimulatedGroup(int rank_count, const sim::WorldOptions& world, SimulatedGroupOptions options);
  ~SimulatedGroup();
  SimulatedGroup(const SimulatedGroup&) = delete;
  SimulatedGroup& operator=(const SimulatedGroup&) = delete;

  // A communicator of all ranks; its index, from 0. Takes no virtual time. Errors as for
  // Communicator::create().
  Result<size_t> add_communicator(const std::string& name);

  int rank_count() const { return static_cast<int>(endpoints_.size()); }
  Communicator& communicator(int rank, size_t index = 0) {
    return *communicators_[index][static_cast<size_t>(rank)];
  }
  Endpoint& endpoint(int rank) { return *endpoints_[static_cast<size_t>(rank)]; }
  sim::World& world() { return world_; }
  const sim::World& world() const { return world_; }

  // The rank leaves; its communicator() must not be asked for again.
  void destroy_communicator(int rank, size_t index = 0) {
    communicators_[index][static_cast<size_t>(rank)].reset();
  }

  // The most memory that messages and scratch of `rank` have taken at a time.
  size_t buffered_bytes_max(int rank) const {
    return endpoints_[static_cast<size_t>(rank)]
        ->core()
        .engine()
        .transport()
        .pool()
        .bytes_out_max();
  }

  // Runs until every work is done (true), or nothing can happen any more or the deadline has passed
  // (false).
  bool run(const std::vector<std::shared_ptr<Work>>& works, TimeNs deadline_ns = kNever);

 private:
  void step(size_t rank);

  sim::World world_;
  bool has_timers_;
  std::vector<TimeNs> timers_;  // when a rank looks at its deadlines next
  std::shared_ptr<Store> store_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators_;
};

}  // namespace mccl
