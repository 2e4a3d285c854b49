// The loop: all events of one instant, then one step of each node that they made due, in the order
// in which it became due; steps may bring new events of the same instant. Everything else is in
// Network.

#include "sim/world.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/check.h"
#include "sim/event_queue.h"
#include "sim/network.h"
#include "sim/sim_wire.h"

namespace mccl::sim {
namespace {

// Far above what a correct engine needs in one instant: a step that always wakes itself ends here
// instead of spinning for ever.
constexpr int64_t kStepsPerInstantMax = 50'000'000;

}  // namespace

class World::Impl {
 public:
  explicit Impl(const WorldOptions& options) : network(options, clock, events) {}

  NodeIndex checked(int node) const {
    MCCL_CHECK_LE(0, node);
    MCCL_CHECK_LT(static_cast<size_t>(node), network.node_count());
    return static_cast<NodeIndex>(node);
  }

  void add_action(TimeNs time_ns, NodeIndex node, std::function<void()> run) {
    if (free_actions.empty()) {
      free_actions.push_back(static_cast<uint32_t>(actions.size()));
      actions.emplace_back();
    }
    const uint32_t slot = free_actions.back();
    free_actions.pop_back();
    actions[slot] = {node, std::move(run)};
    events.push(std::max(time_ns, clock.now()), EventKind::Action, slot);
  }

  bool run(const std::function<bool()>& done, TimeNs deadline_ns) {
    MCCL_CHECK(!is_running);
    is_running = true;
    bool is_done = done();
    while (!is_done) {
      if (network.due_count() == 0) {
        if (events.is_empty()) break;
        if (events.next_time() > deadline_ns) {
          clock.advance_to(deadline_ns);
          break;
        }
      }
      handle_instant();
      is_done = run_steps(done);
    }
    is_running = false;
    return is_done || done();
  }

  // All events of the earliest instant; of the present one if a node is due already.
  void handle_instant() {
    if (network.due_count() == 0 && events.next_time() > clock.now()) {
      clock.advance_to(events.next_time());
      steps_in_instant = 0;
    }
    while (!events.is_empty() && events.next_time() <= clock.now()) {
      const Event event = events.pop();
      if (event.kind == EventKind::Action) {
        run_action(event.index);
      } else {
        network.handle(event);
      }
    }
  }

  void run_action(uint32_t slot) {
    const NodeIndex node = actions[slot].node;
    if (network.is_alive(node) && !network.may_step(node)) return late_actions.push_back(slot);
    const PendingAction action = std::exchange(actions[slot], {});
    free_actions.push_back(slot);
    if (!network.is_alive(action.node)) return;
    action.run();
    network.mark_due(action.node);
  }

  // What the node has missed happens now, in its order, and then its step.
  void resume(NodeIndex node) {
    network.resume(node);
    std::erase_if(late_actions, [&](uint32_t slot) {
      if (actions[slot].node != node) return false;
      events.push(clock.now(), EventKind::Action, slot);
      return true;
    });
  }

  // Runs the steps that are due now, not those that they make due. Stops early once done() holds.
  bool run_steps(const std::function<bool()>& done) {
    for (size_t left = network.due_count(); left > 0; --left) {
      const NodeIndex node = network.take_due();
      if (!network.may_step(node)) continue;
      MCCL_CHECK_LT(steps_in_instant, kStepsPerInstantMax);
      ++steps_in_instant;
      steps[node]();
      network.end_step(node);
      if (done()) return true;
    }
    return false;
  }

  struct PendingAction {
    NodeIndex node = 0;
    std::function<void()> run;
  };

  ManualClock clock;
  EventQueue events;
  Network network;
  std::deque<std::function<void()>> steps;  // a step may add nodes
  std::deque<SimContext> contexts;
  std::vector<PendingAction> actions;
  std::vector<uint32_t> free_actions;
  std::vector<uint32_t> late_actions;  // of nodes that are paused
  int64_t steps_in_instant = 0;
  bool is_running = false;
};

World::World(const WorldOptions& options) : impl_(std::make_unique<Impl>(options)) {}
World::~World() = default;

const Clock& World::clock() const {
  return impl_->clock;
}

int World::add_node(std::function<void()> step) {
  const NodeIndex node = impl_->network.add_node();
  impl_->steps.push_back(std::move(step));
  impl_->contexts.emplace_back(impl_->network, node);
  return static_cast<int>(node);
}

WireContext& World::wires(int node) {
  return impl_->contexts[impl_->checked(node)];
}

void World::at(TimeNs time_ns, int node, std::function<void()> action) {
  impl_->add_action(time_ns, impl_->checked(node), std::move(action));
}

uint64_t World::bytes_sent(int node) const {
  return impl_->network.bytes_sent(impl_->checked(node));
}

uint64_t World::bytes_sent() const {
  uint64_t sum_bytes = 0;
  for (NodeIndex node = 0; node < impl_->network.node_count(); ++node) {
    sum_bytes += impl_->network.bytes_sent(node);
  }
  return sum_bytes;
}

void World::kill(int node) {
  impl_->network.kill(impl_->checked(node));
}
void World::vanish(int node) {
  impl_->network.vanish(impl_->checked(node));
}

void World::pause(int node) {
  impl_->network.pause(impl_->checked(node));
}
void World::resume(int node) {
  impl_->resume(impl_->checked(node));
}
void World::reset(int node_a, int node_b) {
  impl_->network.reset(impl_->checked(node_a), impl_->checked(node_b));
}

bool World::run(const std::function<bool()>& done, TimeNs deadline_ns) {
  return impl_->run(done, deadline_ns);
}

}  // namespace mccl::sim
