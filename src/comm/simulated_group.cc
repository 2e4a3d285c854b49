#include "comm/simulated_group.h"

#include <utility>

#include "base/check.h"

namespace mccl {
namespace {

// The rank tells what its world is like, as a host's setting would, unless it was told otherwise.
Config config_of(int rank, const sim::WorldOptions& world, Config config) {
  if (world.nodes_per_switch == 0 || !config.switch_name.empty()) return config;
  config.switch_name = "switch" + std::to_string(rank / world.nodes_per_switch);
  if (config.uplink_ports == 0) config.uplink_ports = world.uplink_ports;
  return config;
}

}  // namespace

SimulatedGroup::SimulatedGroup(int rank_count, const sim::WorldOptions& world,
                               SimulatedGroupOptions options)
    : world_(world),
      has_timers_(options.has_timers),
      timers_(static_cast<size_t>(rank_count), kNever),
      store_(options.store != nullptr ? std::move(options.store) : make_memory_store()) {
  // Proving is done once, not by each of what may be hundreds of ranks.
  if (options.prover == nullptr) options.prover = std::make_shared<ProgramProver>();
  if (options.library == nullptr)
    options.library = std::make_shared<ProgramLibrary>(options.config);
  for (int rank = 0; rank < rank_count; ++rank) {
    const auto index = static_cast<size_t>(rank);
    const int node = world_.add_node([this, index] { step(index); });
    MCCL_CHECK_EQ(node, rank);
    // Any order of process ids must do: who connects depends on them.
    const uint64_t process_id = (static_cast<uint64_t>(rank) * 7919 + 13) % 100'003 + 1;
    Logger::Sink sink;
    if (options.log) sink = [log = options.log, rank](std::string_view line) { log(rank, line); };
    std::unique_ptr<EndpointCore> core = EndpointCore::create_passive(
        world_.wires(node), world_.clock(), config_of(rank, world, options.config), process_id,
        options.prover, std::move(sink), options.library);
    core->override_program(options.program);
    if (options.observer) core->observe_steps(options.observer(rank));
    endpoints_.push_back(std::make_unique<Endpoint>(std::move(core)));
  }
  EndpointCore& leader = endpoints_.front()->core();
  if (options.portions) leader.override_portions(*options.portions);
  if (options.costs) leader.override_costs(*options.costs);
}

void SimulatedGroup::step(size_t rank) {
  const TimeNs due = endpoints_[rank]->core().step();
  if (!has_timers_ || due >= timers_[rank]) return;
  timers_[rank] = due;
  world_.at(due, static_cast<int>(rank), [this, rank, due] {
    if (timers_[rank] == due) timers_[rank] = kNever;
  });
}

SimulatedGroup::~SimulatedGroup() {
  communicators_.clear();
  endpoints_.clear();  // before the world, which their wires belong to
}

Result<size_t> SimulatedGroup::add_communicator(const std::string& name) {
  std::vector<CommunicatorCore::Rendezvous> rendezvous;
  for (int rank = 0; rank < rank_count(); ++rank) {
    Result<CommunicatorCore::Rendezvous> published =
        CommunicatorCore::publish(endpoints_[static_cast<size_t>(rank)]->core(), *store_, rank,
                                  rank_count(), {.name = name, .timeout_ns = 0, .interrupted = {}});
    if (!published.is_ok()) return published.status();
    rendezvous.push_back(std::move(published).value());
  }
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (CommunicatorCore::Rendezvous& one : rendezvous) {
    Result<std::unique_ptr<CommunicatorCore>> core = CommunicatorCore::finish(one);
    if (!core.is_ok()) return core.status();
    ranks.push_back(std::make_unique<Communicator>(std::move(core).value()));
  }
  communicators_.push_back(std::move(ranks));
  return communicators_.size() - 1;
}

bool SimulatedGroup::run(const std::vector<std::shared_ptr<Work>>& works, TimeNs deadline_ns) {
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
