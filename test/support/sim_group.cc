#include "support/sim_group.h"

#include <algorithm>

#include "base/check.h"

namespace mccl {

SimGroup::SimGroup(int rank_count, const sim::WorldOptions& world, SimGroupOptions options)
    : world_(world) {
  Result<Config> config = parse_config(options.settings, nullptr);
  MCCL_CHECK(config.is_ok());
  // Proving is done once, not by each of what may be hundreds of ranks.
  if (options.prover == nullptr) options.prover = std::make_shared<ProgramProver>();
  for (int rank = 0; rank < rank_count; ++rank) {
    const auto index = static_cast<size_t>(rank);
    const int node = world_.add_node([this, index] { endpoints_[index]->core().step(); });
    MCCL_CHECK_EQ(node, rank);
    // Any order of process ids must do: who connects depends on them.
    const uint64_t process_id = (static_cast<uint64_t>(rank) * 7919 + 13) % 100'003 + 1;
    endpoints_.push_back(std::make_unique<Endpoint>(EndpointCore::create_passive(
        world_.wires(node), world_.clock(), config.value(), process_id, options.prover)));
  }
  if (options.portions) endpoints_.front()->core().override_portions(*options.portions);
  add_communicator("world");
}

SimGroup::~SimGroup() {
  communicators_.clear();
  endpoints_.clear();  // before the world, which their wires belong to
}

size_t SimGroup::add_communicator(const std::string& name) {
  std::vector<CommunicatorCore::Rendezvous> rendezvous;
  for (int rank = 0; rank < rank_count(); ++rank) {
    Result<CommunicatorCore::Rendezvous> published =
        CommunicatorCore::publish(endpoints_[static_cast<size_t>(rank)]->core(), *store_, rank,
                                  rank_count(), {.name = name, .timeout_ns = 0, .interrupted = {}});
    MCCL_CHECK(published.is_ok());
    rendezvous.push_back(std::move(published).value());
  }
  std::vector<std::unique_ptr<Communicator>>& ranks = communicators_.emplace_back();
  for (CommunicatorCore::Rendezvous& one : rendezvous) {
    Result<std::unique_ptr<CommunicatorCore>> core = CommunicatorCore::finish(one);
    if (!core.is_ok()) fail_check(__FILE__, __LINE__, "rendezvous", core.status().to_string());
    ranks.push_back(std::make_unique<Communicator>(std::move(core).value()));
  }
  return communicators_.size() - 1;
}

bool SimGroup::run(const std::vector<std::shared_ptr<Work>>& works, TimeNs deadline_ns) {
  // Works end in any order; the first unfinished one is looked at first.
  size_t first = 0;
  return world_.run(
      [&] {
        while (first < works.size() && works[first]->is_done()) ++first;
        return first == works.size();
      },
      deadline_ns);
}

}  // namespace mccl
