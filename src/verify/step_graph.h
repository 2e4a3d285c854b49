// The steps of all ranks as one graph: lane order, dependences, messages, and (for deadlock only)
// credits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mccl/program.h"
#include "verify/findings.h"

namespace mccl::judge {

// A step of the whole program; nodes of a lane are consecutive.
using Node = int32_t;
constexpr Node kNoNode = -1;

class StepGraph {
 public:
  // The program must have passed check_structure() and outlive the graph. Adds a Pairing finding
  // for every stream whose ends disagree; the graph is usable only when there is none.
  StepGraph(const Program& program, FindingList& findings);

  const Program& program() const { return program_; }
  Node node_count() const { return static_cast<Node>(node_lane_.size()); }
  int lane_of(Node node) const { return node_lane_[index(node)]; }  // numbered over all ranks
  int rank_of(Node node) const { return lane_rank_[index(lane_of(node))]; }
  StepRef ref_of(Node node) const;
  const Step& step_of(Node node) const;
  bool is_first_of_lane(Node node) const { return node == lane_first_[index(lane_of(node))]; }
  // Steps of the same rank, in the order of Step::dependences.
  std::span<const Node> dependences_of(Node node) const {
    return row(dependence_first_, dependences_, node);
  }
  Node sender_of(Node node) const { return sender_[index(node)]; }      // of the message it takes
  Node receiver_of(Node node) const { return receiver_[index(node)]; }  // of the message it gives
  // The step that must have taken its message before `node` may send with `credits` messages
  // outstanding; kNoNode when it need not wait.
  Node credit_giver_of(Node node, int credits) const;

  // All nodes such that each comes after what it waits for; shorter than node_count() when some
  // wait for each other.
  std::vector<Node> topological_order(int credits) const;
  // Steps of one cycle, each with what it waits for; `order` is the incomplete order above.
  std::vector<TraceLine> describe_cycle(const std::vector<Node>& order, int credits) const;

  std::string describe(Node node) const;
  FindingPlace place_of(Node node) const;
  TraceLine trace_line(Node node) const { return {describe(node), place_of(node)}; }

 private:
  struct Stream;

  static size_t index(int32_t number) { return static_cast<size_t>(number); }
  std::span<const Node> row(const std::vector<int32_t>& first, const std::vector<Node>& entries,
                            Node node) const {
    return {entries.data() + first[index(node)], entries.data() + first[index(node) + 1]};
  }
  void number_nodes();
  void add_dependences();
  void pair_messages(FindingList& findings);
  std::vector<Stream> collect_streams() const;
  void pair_stream(const Stream& stream, FindingList& findings);
  std::vector<Node> messages_of_lane(int lane, bool sends) const;
  std::string end_text(int lane, int rank, size_t count, bool sends) const;
  template <typename Visit>
  void visit_waits(Node node, int credits, Visit visit) const;
  template <typename Visit>
  void visit_waiters(Node node, int credits, Visit visit) const;

  const Program& program_;
  std::vector<int32_t> lane_first_;       // first node of each lane, and one past the last
  std::vector<int32_t> lane_rank_;        // of each lane
  std::vector<int32_t> rank_first_lane_;  // of each rank
  std::vector<int32_t> node_lane_;
  std::vector<int32_t> dependence_first_;
  std::vector<Node> dependences_;
  std::vector<int32_t> dependent_first_;
  std::vector<Node> dependents_;
  std::vector<Node> sender_;
  std::vector<Node> receiver_;
  std::vector<Node> last_send_;  // the message before on the same stream
  std::vector<Node> next_send_;
};

// Answers whether one step always comes before another: by lane order, dependences and messages.
// Searches backward from the later step and looks only at steps whose place in a topological order
// lies between the two; a path along messages is tried first, because that is where long ones run.
class HappensBefore {
 public:
  HappensBefore(const StepGraph& graph, const std::vector<Node>& order);

  // True also when both are the same step.
  bool precedes(Node first, Node second);

 private:
  bool reaches(Node first, Node node) const;
  void push(Node first, Node node);

  const StepGraph& graph_;
  std::vector<int32_t> position_;
  std::vector<int32_t> visited_in_;  // number of the search that saw the node last
  std::vector<Node> stack_;
  int32_t search_ = 0;
};

}  // namespace mccl::judge
