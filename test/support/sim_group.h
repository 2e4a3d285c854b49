// A simulated group for tests: settings by name, and a communicator that must come about.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/simulated_group.h"

namespace mccl {

struct SimGroupOptions {
  std::vector<std::pair<std::string, std::string>> settings;  // by their environment names
  std::optional<PlanPortions> portions;   // instead of those of the link profile
  std::shared_ptr<ProgramProver> prover;  // shared with other groups of this thread; null: its own
};

class SimGroup : public SimulatedGroup {
 public:
  // With one communicator of all ranks. Aborts when that fails.
  SimGroup(int rank_count, const sim::WorldOptions& world, SimGroupOptions options = {});

  // Another communicator of the same nodes; its index.
  size_t add_communicator(const std::string& name);
};

}  // namespace mccl
