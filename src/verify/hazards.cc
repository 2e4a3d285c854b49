// Hazards: are any two conflicting accesses of a chunk always in the same order?
//
// The steps are visited in one topological order. Each place remembers its last write and the reads
// since; a read is compared with the last write, a write with the last write and those reads. That
// is enough: the writes of a place then form a chain, a read comes after the writes before it and
// before the next one, and every other conflicting pair is ordered through these. Nothing is
// compared twice, so the cost is one bounded backward search per neighbouring pair; of successive
// reads by one lane the last stands for all.
//
// A step that sends by reference reads its sent span until its bytes are captured, which its place
// in its lane does not show; a path through the step that receives the message does (law L3). Where
// only the lane's order leads to the overwriting step, that step gets a capture wait. Later
// overwriters come after it and need none.
//
// A copy of a chunk onto itself (an in-place call's copy of input to output) changes nothing and
// counts as a read.
#include "verify/hazards.h"

#include <algorithm>

#include "ir/opcode.h"

namespace mccl::judge {
namespace {

struct Range {
  Place first;
  int count;
  const Span* span;
  bool operator<(const Range& other) const { return first < other.first; }
  Place end() const { return first + count; }
};

struct PlaceState {
  Node last_write = kNoNode;
  int32_t first_read = -1;  // of the reads since; an index into the pool
};

struct Read {
  Node node;
  bool is_by_reference;
  int32_t next;
};

class HazardCheck {
 public:
  HazardCheck(const StepGraph& graph, const std::vector<Node>& order, const Places& places,
              FindingList& findings, Proof& proof)
      : graph_(graph),
        places_(places),
        findings_(findings),
        proof_(proof),
        happens_before_(graph, order),
        states_(static_cast<size_t>(places.place_count())),
        checked_for_(static_cast<size_t>(graph.node_count()) * 2, kNoNode) {}

  void visit(Node node) {
    const Step& step = graph_.step_of(node);
    collect_ranges(step);
    check_overlaps(node);
    const Span* sent = sent_span(step);
    const bool sends_a_source = sent != nullptr && step.opcode == Opcode::Send;
    for (const Range& range : reads_)
      for (int i = 0; i < range.count; ++i) read(node, range, i, sends_a_source);
    for (const Range& range : writes_)
      for (int i = 0; i < range.count; ++i) write(node, range, i);
    if (sent == nullptr || sends_a_source) return;
    for (const Range& range : writes_)
      for (int i = 0; i < range.count; ++i) remember_read(node, range.first + i, true);
  }

 private:
  void collect_ranges(const Step& step) {
    reads_.clear();
    writes_.clear();
    for (const Span& span : step.sources)
      reads_.push_back({places_.first_place(span), span.count, &span});
    for (const Span& span : step.destinations)
      writes_.push_back({places_.first_place(span), span.count, &span});
    if (step.opcode == Opcode::Reduce) reads_.push_back(writes_[0]);
    std::sort(writes_.begin(), writes_.end());
    const bool copies =
        step.opcode == Opcode::Copy || (step.opcode == Opcode::Fold && step.sources.size() == 1);
    if (!copies) return;
    const Place source = reads_[0].first;
    std::erase_if(writes_, [&](const Range& range) { return range.first == source; });
  }

  // Within one step: destinations apart from each other, and from every source that is not the
  // same.
  void check_overlaps(Node node) {
    for (size_t i = 1; i < writes_.size(); ++i)
      if (writes_[i].first < writes_[i - 1].end())
        add_overlap(node, *writes_[i - 1].span, *writes_[i].span, "two destinations, ");
    for (const Range& range : reads_) {
      auto after = std::upper_bound(writes_.begin(), writes_.end(), range);
      if (after != writes_.end() && after->first < range.end())
        add_overlap(node, *range.span, *after->span, "a source and a destination, ");
      if (after == writes_.begin()) continue;
      --after;
      if (after->first != range.first && range.first < after->end())
        add_overlap(node, *range.span, *after->span, "a source and a destination, ");
    }
  }

  void add_overlap(Node node, const Span& first, const Span& second, const char* what) {
    const StepRef ref = graph_.ref_of(node);
    findings_.add(Rule::Race, graph_.place_of(node),
                  step_name(graph_.rank_of(node), ref.lane, ref.step) + " has " + what +
                      to_string(first) + " and " + to_string(second) + ", that overlap",
                  {graph_.trace_line(node)});
  }

  void read(Node node, const Range& range, int offset, bool is_by_reference) {
    const PlaceState& state = states_[static_cast<size_t>(range.first + offset)];
    if (state.last_write != kNoNode && !lane_has_just_read(state, node))
      check_pair(state.last_write, "written", node, "read", range, offset, false);
    remember_read(node, range.first + offset, is_by_reference);
  }

  void write(Node node, const Range& range, int offset) {
    PlaceState& state = states_[static_cast<size_t>(range.first + offset)];
    if (state.last_write != kNoNode)
      check_pair(state.last_write, "written", node, "written", range, offset, false);
    while (state.first_read != -1) {
      const int32_t slot = state.first_read;
      const Read earlier = reads_since_[static_cast<size_t>(slot)];
      if (earlier.node != node)
        check_pair(earlier.node, "read", node, "written", range, offset, earlier.is_by_reference);
      state.first_read = earlier.next;
      reads_since_[static_cast<size_t>(slot)].next = free_read_;
      free_read_ = slot;
    }
    state.last_write = node;
  }

  bool lane_has_just_read(const PlaceState& state, Node node) const {
    return state.first_read != -1 &&
           graph_.lane_of(reads_since_[static_cast<size_t>(state.first_read)].node) ==
               graph_.lane_of(node);
  }

  void remember_read(Node node, Place place, bool is_by_reference) {
    PlaceState& state = states_[static_cast<size_t>(place)];
    if (lane_has_just_read(state, node)) {
      // Captures of a stream are in order, so a later send covers an earlier one of its lane.
      Read& earlier = reads_since_[static_cast<size_t>(state.first_read)];
      if (is_by_reference || !earlier.is_by_reference) {
        earlier.node = node;
        earlier.is_by_reference = is_by_reference;
        return;
      }
    }
    const Read entry{node, is_by_reference, state.first_read};
    if (free_read_ == -1) {
      state.first_read = static_cast<int32_t>(reads_since_.size());
      reads_since_.push_back(entry);
      return;
    }
    state.first_read = free_read_;
    free_read_ = reads_since_[static_cast<size_t>(free_read_)].next;
    reads_since_[static_cast<size_t>(state.first_read)] = entry;
  }

  void check_pair(Node earlier, const char* earlier_verb, Node node, const char* verb,
                  const Range& range, int offset, bool is_by_reference) {
    if (earlier == node) return;
    // The chunks of a span meet the same steps again and again.
    Node& checked_for = checked_for_[static_cast<size_t>(earlier) * 2 + (is_by_reference ? 1 : 0)];
    if (checked_for == node) return;
    checked_for = node;
    if (is_by_reference && happens_before_.precedes(graph_.receiver_of(earlier), node)) return;
    if (happens_before_.precedes(earlier, node)) {
      if (is_by_reference) add_capture_wait(earlier, node);
      return;
    }
    const StepRef first = graph_.ref_of(earlier);
    const StepRef second = graph_.ref_of(node);
    Span chunk = *range.span;
    chunk.index += offset;
    chunk.count = 1;
    findings_.add(Rule::Race, graph_.place_of(node),
                  "rank " + std::to_string(chunk.rank) + ": " + to_string(chunk) + " is " +
                      earlier_verb + " by lane " + std::to_string(first.lane) + " step " +
                      std::to_string(first.step) + " and " + verb + " by lane " +
                      std::to_string(second.lane) + " step " + std::to_string(second.step) +
                      ", and nothing orders the two",
                  {graph_.trace_line(earlier), graph_.trace_line(node)});
  }

  void add_capture_wait(Node sender, Node node) {
    const StepRef wait = graph_.ref_of(sender);
    const StepRef ref = graph_.ref_of(node);
    auto& waits = proof_
                      .steps[static_cast<size_t>(graph_.rank_of(node))]
                            [static_cast<size_t>(ref.lane)][static_cast<size_t>(ref.step)]
                      .capture_waits;
    auto place = std::lower_bound(waits.begin(), waits.end(), StepRef{wait.lane, 0});
    if (place == waits.end() || place->lane != wait.lane)
      waits.insert(place, wait);
    else
      place->step = std::max(place->step, wait.step);
  }

  const StepGraph& graph_;
  const Places& places_;
  FindingList& findings_;
  Proof& proof_;
  HappensBefore happens_before_;
  std::vector<PlaceState> states_;
  std::vector<Read> reads_since_;
  int32_t free_read_ = -1;
  std::vector<Node> checked_for_;  // [node * 2 + is_by_reference]: the later step of the last check
  std::vector<Range> reads_;       // of the step that is visited
  std::vector<Range> writes_;      // sorted
};

}  // namespace

void check_hazards(const StepGraph& graph, const std::vector<Node>& order, const Places& places,
                   FindingList& findings, Proof& proof) {
  HazardCheck check(graph, order, places, findings, proof);
  for (const Node node : order) {
    if (findings.is_full()) return;
    check.visit(node);
  }
}

}  // namespace mccl::judge
