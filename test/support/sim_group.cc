#include "support/sim_group.h"

#include "base/check.h"

namespace mccl {
namespace {

SimulatedGroupOptions to_group_options(SimGroupOptions options) {
  Result<Config> config = parse_config(options.settings, nullptr);
  MCCL_CHECK(config.is_ok());
  return {
      .config = config.value(), .portions = options.portions, .prover = std::move(options.prover)};
}

}  // namespace

SimGroup::SimGroup(int rank_count, const sim::WorldOptions& world, SimGroupOptions options)
    : SimulatedGroup(rank_count, world, to_group_options(std::move(options))) {
  add_communicator("world");
}

size_t SimGroup::add_communicator(const std::string& name) {
  Result<size_t> index = SimulatedGroup::add_communicator(name);
  if (!index.is_ok()) fail_check(__FILE__, __LINE__, "rendezvous", index.status().to_string());
  return index.value();
}

}  // namespace mccl
