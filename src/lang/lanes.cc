// Which stream ends share a lane: those of a fused node and those of a lane key (channels.h settled
// that they fit), and the two directions to one peer when a step of one waits directly for a step
// of the other (an exchange). Any other two ends keep lanes of their own, so that a message to one
// peer never waits for a message from another.
//
// A local node goes where its value is: to the lane of all that it waits for, else, when it waits
// for nothing, to the lane of its first consumer, else to a local lane. Local lanes are chains: a
// node joins one whose last node it waits for, so that independent local work stays independent.
#include "lang/lanes.h"

#include <algorithm>
#include <map>

namespace mccl::lang {
namespace {

constexpr int kLocalLanesPerRankMax = 16;
constexpr int kImpliedStepsMax = 256;  // followed per node, besides its own dependences

class LanePlanner {
 public:
  LanePlanner(const StepGraph& graph, const ChunkDag& dag, const ChannelPlan& channels,
              const Indexed<int>& order, int rank_count, IdleNodes idle_nodes)
      : graph_(graph),
        dag_(dag),
        channels_(channels),
        order_(order),
        local_lanes_(static_cast<size_t>(rank_count)),
        ends_(static_cast<size_t>(rank_count)),
        rank_count_(rank_count),
        idle_nodes_(idle_nodes) {}

  LanePlan run() {
    position_.assign(graph_.nodes.size(), 0);
    for (int index = 0; index < order_.count(); ++index) position_[order_[index]] = index;
    lane_.assign(graph_.nodes.size(), -1);
    for (const int node : order_)
      if (!graph_.nodes[node].is_local()) place_message_node(node);
    for (const int node : order_) join_exchange(node);
    for (const int node : order_)
      if (graph_.nodes[node].is_local() && !is_sharing(node)) place_local_node(node);
    if (idle_nodes_ == IdleNodes::Shared) place_idle_nodes();
    return number_lanes();
  }

 private:
  struct Draft {
    int send_peer = -1;
    int recv_peer = -1;
    int channel = 0;
    int key = -1;
    int joined_to = -1;
  };

  int find(int lane) const {
    while (drafts_[lane].joined_to >= 0) lane = drafts_[lane].joined_to;
    return lane;
  }

  int new_lane(int key) {
    Draft draft;
    draft.key = key;
    drafts_.push_back(draft);
    return drafts_.count() - 1;
  }

  // The lane of a stream end, made together with that of its partner when first seen.
  int lane_of_end(int rank, bool is_send, int peer, int channel) {
    const uint64_t name = end_name(rank, is_send, peer, channel);
    if (const auto place = lane_of_end_.find(name); place != lane_of_end_.end())
      return place->second;
    const StreamEnd& end = channels_.ends.at(name);
    const auto keyed = lane_of_key_.find({rank, end.key});
    int lane = -1;
    if (end.key >= 0 && keyed != lane_of_key_.end()) lane = keyed->second;
    if (lane < 0 && end.partner >= 0) {
      const auto partner = lane_of_end_.find(end_name(rank, !is_send, end.partner, channel));
      if (partner != lane_of_end_.end()) lane = partner->second;
    }
    if (lane < 0) lane = new_lane(end.key);
    if (end.key >= 0) lane_of_key_[{rank, end.key}] = lane;
    Draft& draft = drafts_[lane];
    draft.channel = channel;
    if (end.key >= 0) draft.key = end.key;
    (is_send ? draft.send_peer : draft.recv_peer) = peer;
    lane_of_end_[name] = lane;
    return lane;
  }

  void place_message_node(int index) {
    const Node& node = graph_.nodes[index];
    if (node.send_message >= 0)
      lane_[index] = lane_of_end(node.rank, true, graph_.messages[node.send_message].receiver,
                                 channels_.channel[node.send_message]);
    if (node.recv_message >= 0)
      lane_[index] = lane_of_end(node.rank, false, graph_.messages[node.recv_message].sender,
                                 channels_.channel[node.recv_message]);
  }

  void join_exchange(int index) {
    if (lane_[index] < 0) return;
    for (const int before : dag_.predecessors(index)) {
      if (lane_[before] < 0) continue;
      const int first = find(lane_[before]);
      const int second = find(lane_[index]);
      if (first == second) continue;
      Draft& one = drafts_[first];
      Draft& other = drafts_[second];
      if (one.key >= 0 || other.key >= 0 || one.channel != other.channel) continue;
      const bool is_exchange =
          (one.recv_peer < 0 && other.send_peer < 0 && one.send_peer == other.recv_peer) ||
          (one.send_peer < 0 && other.recv_peer < 0 && one.recv_peer == other.send_peer);
      if (!is_exchange) continue;
      one.send_peer = std::max(one.send_peer, other.send_peer);
      one.recv_peer = std::max(one.recv_peer, other.recv_peer);
      other.joined_to = first;
    }
  }

  void place_local_node(int index) {
    const Node& node = graph_.nodes[index];
    if (node.lane_key >= 0) {
      const auto [place, is_new] = lane_of_key_.insert({{node.rank, node.lane_key}, 0});
      if (is_new) place->second = new_lane(node.lane_key);
      lane_[index] = place->second;
      return;
    }
    lane_[index] = lane_of_value(index);
    if (lane_[index] < 0) lane_[index] = local_lane(index);
  }

  bool is_sharing(int node) const {
    return idle_nodes_ == IdleNodes::Shared && graph_.nodes[node].lane_key < 0 &&
           is_idle(graph_, dag_, node);
  }

  // Each to the lane of its rank that is done first.
  void place_idle_nodes() {
    std::map<int, int> last_position;  // by lane
    for (const int node : order_) {
      if (lane_[node] < 0) continue;
      const int lane = find(lane_[node]);
      if (last_position.count(lane) == 0) ends_[graph_.nodes[node].rank].push_back(lane);
      last_position[lane] = position_[node];
    }
    for (const int node : order_) {
      if (lane_[node] >= 0) continue;
      auto& lanes = ends_[graph_.nodes[node].rank];
      if (lanes.empty()) lanes.push_back(new_lane(-1));
      lane_[node] = *std::min_element(lanes.begin(), lanes.end(), [&](int one, int other) {
        return last_position[one] < last_position[other];
      });
      last_position[lane_[node]] = position_[node];
    }
  }

  // -1: none.
  int lane_of_value(int index) const {
    const auto before = dag_.predecessors(index);
    if (!before.empty()) {
      const int lane = find(lane_[before[0]]);
      const bool is_one = std::all_of(before.begin(), before.end(),
                                      [&](int node) { return find(lane_[node]) == lane; });
      return is_one ? lane : -1;
    }
    int first = -1;
    for (const int after : dag_.successors(index))
      if (lane_[after] >= 0 && (first < 0 || position_[after] < position_[first])) first = after;
    return first < 0 ? -1 : lane_[first];
  }

  int local_lane(int index) {
    auto& lanes = local_lanes_[graph_.nodes[index].rank];
    const auto before = dag_.predecessors(index);
    int oldest = -1;
    for (int number = 0; number < lanes.count(); ++number) {
      auto& [lane, last] = lanes[number];
      if (std::find(before.begin(), before.end(), last) != before.end()) {
        last = index;
        return lane;
      }
      if (oldest < 0 || position_[last] < position_[lanes[oldest].second]) oldest = number;
    }
    if (lanes.count() < kLocalLanesPerRankMax) {
      lanes.emplace_back(new_lane(-1), index);
      return lanes[lanes.count() - 1].first;
    }
    lanes[oldest].second = index;
    return lanes[oldest].first;
  }

  LanePlan number_lanes() {
    LanePlan plan;
    plan.ranks.resize(static_cast<size_t>(rank_count_));
    plan.place.resize(graph_.nodes.size());
    Indexed<int> number(drafts_.size(), -1);
    for (const int node : order_) {
      const int draft_index = find(lane_[node]);
      auto& lanes = plan.ranks[graph_.nodes[node].rank];
      if (number[draft_index] < 0) {
        const Draft& draft = drafts_[draft_index];
        number[draft_index] = lanes.count();
        lanes.push_back({draft.send_peer, draft.recv_peer, draft.channel, {}});
      }
      PlannedLane& lane = lanes[number[draft_index]];
      plan.place[node] = {number[draft_index], lane.nodes.count()};
      lane.nodes.push_back(node);
    }
    return plan;
  }

  const StepGraph& graph_;
  const ChunkDag& dag_;
  const ChannelPlan& channels_;
  const Indexed<int>& order_;
  Indexed<int> position_;  // by node, in the order
  Indexed<int> lane_;      // by node: draft
  Indexed<Draft> drafts_;
  std::unordered_map<uint64_t, int> lane_of_end_;
  std::map<std::pair<int, int>, int> lane_of_key_;     // by rank, key
  Indexed<Indexed<std::pair<int, int>>> local_lanes_;  // by rank: draft, last node
  Indexed<std::vector<int>> ends_;                     // by rank: lanes that idle nodes may join
  int rank_count_;
  IdleNodes idle_nodes_;
};

// Per node: the latest step of every other lane that it waits for directly.
class DependenceReducer {
 public:
  DependenceReducer(const StepGraph& graph, const ChunkDag& dag, const LanePlan& plan)
      : graph_(graph), plan_(plan) {
    direct_.resize(graph.nodes.size());
    for (int node = 0; node < graph.nodes.count(); ++node) {
      auto& refs = direct_[node];
      for (const int before : dag.predecessors(node))
        if (plan.place[before].lane != plan.place[node].lane) refs.push_back(plan.place[before]);
      std::sort(refs.begin(), refs.end(), [](const StepRef& a, const StepRef& b) {
        return a.lane != b.lane ? a.lane < b.lane : a.step > b.step;
      });
      refs.erase(std::unique(refs.begin(), refs.end(),
                             [](const StepRef& a, const StepRef& b) { return a.lane == b.lane; }),
                 refs.end());
    }
  }

  Indexed<std::vector<StepRef>> run() {
    Indexed<std::vector<StepRef>> minimal(graph_.nodes.size());
    for (int node = 0; node < graph_.nodes.count(); ++node)
      if (!direct_[node].empty()) minimal[node] = reduce(node);
    return minimal;
  }

 private:
  std::vector<StepRef> reduce(int node) {
    const auto& lanes = plan_.ranks[graph_.nodes[node].rank];
    reached_.assign(lanes.size(), -1);
    is_queued_until_.assign(lanes.size(), -1);
    queue_.clear();
    const StepRef place = plan_.place[node];
    for (const StepRef& ref : direct_[node]) follow(lanes, ref);
    if (place.step > 0) visit({place.lane, place.step - 1});
    int budget = kImpliedStepsMax;
    for (size_t next = 0; next < queue_.size() && budget > 0; ++next, --budget) {
      const StepRef ref = queue_[next];
      follow(lanes, ref);
    }
    std::vector<StepRef> kept;
    for (const StepRef& ref : direct_[node])
      if (reached_[ref.lane] < ref.step) kept.push_back(ref);
    return kept;
  }

  // What is done when `ref` is: its lane up to the step before, and what it waits for.
  void follow(const Indexed<PlannedLane>& lanes, const StepRef& ref) {
    if (ref.step > 0) visit({ref.lane, ref.step - 1});
    for (const StepRef& before : direct_[lanes[ref.lane].nodes[ref.step]]) visit(before);
  }

  void visit(const StepRef& ref) {
    reached_[ref.lane] = std::max(reached_[ref.lane], ref.step);
    if (is_queued_until_[ref.lane] >= ref.step) return;
    is_queued_until_[ref.lane] = ref.step;
    queue_.push_back(ref);
  }

  const StepGraph& graph_;
  const LanePlan& plan_;
  Indexed<std::vector<StepRef>> direct_;  // by node, sorted by lane
  Indexed<int> reached_;                  // by lane: last step that is known to be done
  Indexed<int> is_queued_until_;          // by lane
  std::vector<StepRef> queue_;
};

}  // namespace

bool is_idle(const StepGraph& graph, const ChunkDag& dag, int node) {
  return graph.nodes[node].is_local() && dag.predecessors(node).empty() &&
         dag.successors(node).empty();
}

LanePlan plan_lanes(const StepGraph& graph, const ChunkDag& dag, const ChannelPlan& channels,
                    const Indexed<int>& order, int rank_count, IdleNodes idle_nodes) {
  return LanePlanner(graph, dag, channels, order, rank_count, idle_nodes).run();
}

Indexed<std::vector<StepRef>> minimal_dependences(const StepGraph& graph, const ChunkDag& dag,
                                                  const LanePlan& plan) {
  return DependenceReducer(graph, dag, plan).run();
}

}  // namespace mccl::lang
