// Symbolic execution of one iteration.
//
// In a program without races every schedule computes the same, so one topological order stands for
// all. Origins: a chunk's length is that of the chunk it descends from (law L4), so a reduce must
// combine equal origins, and a chunk of input or output has room for its own origin only.
#include "verify/values.h"

#include <algorithm>

#include "ir/collective.h"
#include "ir/opcode.h"
#include "verify/structure.h"

namespace mccl::judge {
namespace {

class Executor {
 public:
  Executor(const StepGraph& graph, const Places& places, Promises& promises, TreePool& trees,
           FindingList& findings, Proof& proof)
      : graph_(graph),
        program_(graph.program()),
        places_(places),
        promises_(promises),
        trees_(trees),
        findings_(findings),
        proof_(proof),
        values_(static_cast<size_t>(places.place_count())),
        last_writer_(static_cast<size_t>(places.place_count()), kNoNode) {
    size_t message_chunk_count = 0;
    for (Node node = 0; node < graph.node_count(); ++node) {
      execution_.message_first.push_back(message_chunk_count);
      if (graph.receiver_of(node) != kNoNode)
        message_chunk_count += static_cast<size_t>(step_chunk_count(graph.step_of(node)));
    }
    execution_.message_first.push_back(message_chunk_count);
    execution_.messages.resize(message_chunk_count);
    write_inputs();
  }

  void execute(Node node) {
    const Step& step = graph_.step_of(node);
    const OpcodeRow& row = opcode_row(step.opcode);
    const int count = step_chunk_count(step);
    const StepRef ref = graph_.ref_of(node);
    StepProof& proof = proof_.steps[static_cast<size_t>(graph_.rank_of(node))]
                                   [static_cast<size_t>(ref.lane)][static_cast<size_t>(ref.step)];
    proof.origins.resize(static_cast<size_t>(count));
    results_.clear();
    for (int chunk = 0; chunk < count; ++chunk) {
      collect_operands(node, step, row, chunk);
      results_.push_back(combine(node, row, chunk));
      if (results_.back().is_known())
        proof.origins[static_cast<size_t>(chunk)] = places_.origin(results_.back().origin);
    }
    // All is read before anything is written: destinations may be sources of the same step.
    for (const Span& span : step.destinations)
      for (int chunk = 0; chunk < count; ++chunk)
        write(node, span, chunk, results_[static_cast<size_t>(chunk)]);
    if (row.sends)
      std::copy(
          results_.begin(), results_.end(),
          execution_.messages.begin() +
              static_cast<std::ptrdiff_t>(execution_.message_first[static_cast<size_t>(node)]));
  }

  void check_postcondition() {
    // Where several ranks have the same output they are looked at together.
    execution_.output_trees.assign(static_cast<size_t>(promises_.equality_class_count()),
                                   Value::kUnwritten);
    first_output_.resize(execution_.output_trees.size());
    int count_max = 0;
    for (int rank = 0; rank < program_.rank_count(); ++rank)
      count_max = std::max(count_max, buffer_chunk_count(program_, rank, Buffer::Output));
    for (int chunk = 0; chunk < count_max; ++chunk)
      for (int rank = 0; rank < program_.rank_count(); ++rank) {
        if (findings_.is_full()) return;
        if (chunk < buffer_chunk_count(program_, rank, Buffer::Output)) check_output(rank, chunk);
      }
  }

  Execution take() { return std::move(execution_); }

 private:
  void write_inputs() {
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      if (!holds_input(program_, rank)) continue;
      const Span input{rank, Buffer::Input, 0, 1};
      const int count = buffer_chunk_count(program_, rank, Buffer::Input);
      for (int chunk = 0; chunk < count; ++chunk)
        values_[static_cast<size_t>(places_.first_place(input) + chunk)] = {
            places_.origin_of_chunk(input, chunk), promises_.leaf_of(rank, chunk)};
    }
  }

  // The operands of one chunk in the order of their combination, with their names for findings.
  void collect_operands(Node node, const Step& step, const OpcodeRow& row, int chunk) {
    operands_.clear();
    operand_spans_.clear();
    if (row.receives) {
      const auto sender = static_cast<size_t>(graph_.sender_of(node));
      operands_.push_back(
          execution_.messages[execution_.message_first[sender] + static_cast<size_t>(chunk)]);
      operand_spans_.push_back(nullptr);
    }
    if (step.opcode == Opcode::Reduce) add_operand(node, step.destinations[0], chunk);
    for (const Span& span : step.sources) add_operand(node, span, chunk);
  }

  void add_operand(Node node, const Span& span, int chunk) {
    Value value = values_[static_cast<size_t>(places_.first_place(span) + chunk)];
    if (value.tree == Value::kUnwritten) {
      findings_.add(
          Rule::Unwritten, graph_.place_of(node),
          name(node) + " reads " + chunk_name(span, chunk) + ", to which nothing was written",
          {graph_.trace_line(node)});
      value.tree = Value::kUnknown;
    }
    operands_.push_back(value);
    operand_spans_.push_back(&span);
  }

  Value combine(Node node, const OpcodeRow& row, int chunk) {
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].is_known()) return {Places::kNoOrigin, Value::kUnknown};
      if (operands_[i].origin == operands_[0].origin) continue;
      findings_.add(Rule::Origins, graph_.place_of(node),
                    name(node) + " reduces chunks of different origin: " + operand_text(0, chunk) +
                        " and " + operand_text(i, chunk),
                    {graph_.trace_line(node)});
      return {Places::kNoOrigin, Value::kUnknown};
    }
    if (!row.reduces || operands_.size() == 1) return operands_[0];
    if (operands_.size() == 2)
      return {operands_[0].origin, trees_.binary(operands_[0].tree, operands_[1].tree)};
    std::vector<Tree> operand_trees;
    for (const Value& operand : operands_) operand_trees.push_back(operand.tree);
    return {operands_[0].origin, trees_.fold(std::move(operand_trees))};
  }

  void write(Node node, const Span& span, int chunk, Value value) {
    const auto place = static_cast<size_t>(places_.first_place(span) + chunk);
    if (span.buffer == Buffer::Input && !places_.is_in_place())
      findings_.add(Rule::InputWritten, graph_.place_of(node),
                    name(node) + " writes " + chunk_name(span, chunk) +
                        ", and the program claims to serve out-of-place calls",
                    {graph_.trace_line(node)});
    else if (span.buffer == Buffer::Input &&
             input_alias(program_, span.rank, span.index + chunk) == -1)
      findings_.add(Rule::InputWritten, graph_.place_of(node),
                    name(node) + " writes " + chunk_name(span, chunk) +
                        ", which is not part of the output of an in-place call",
                    {graph_.trace_line(node)});
    const int room = places_.origin_of_chunk(span, chunk);
    if (value.is_known() && room != Places::kNoOrigin && room != value.origin) {
      findings_.add(Rule::Origins, graph_.place_of(node),
                    name(node) + " writes " + origin_text(value.origin) + " to " +
                        chunk_name(span, chunk) + ", which has room for " + origin_text(room),
                    {graph_.trace_line(node)});
      value = {Places::kNoOrigin, Value::kUnknown};
    }
    values_[place] = value;
    last_writer_[place] = node;
  }

  bool is_custom() const { return program_.collective == Collective::Custom; }

  const Value& output(int rank, int chunk) const {
    return values_[static_cast<size_t>(places_.first_place({rank, Buffer::Output, chunk, 1}))];
  }

  // Its last writer.
  FindingPlace place_of_output(int rank, int chunk) const {
    const Place place = places_.first_place({rank, Buffer::Output, chunk, 1});
    const Node writer = last_writer_[static_cast<size_t>(place)];
    return writer == kNoNode ? FindingPlace{rank, -1, -1} : graph_.place_of(writer);
  }

  void check_output(int rank, int chunk) {
    const std::vector<Tree>& wanted = promises_.wanted(rank, chunk);
    if (wanted.empty()) return;
    const Tree tree = output(rank, chunk).tree;
    Tree& first =
        execution_.output_trees[static_cast<size_t>(promises_.equality_class(rank, chunk))];
    if (first == Value::kUnwritten) {
      first = tree;
      first_output_[static_cast<size_t>(promises_.equality_class(rank, chunk))] = {rank, chunk};
    }
    if (tree == Value::kUnknown) return;
    if (tree == Value::kUnwritten) return add_output(rank, chunk, " is never written");
    if (is_custom() ? wanted.size() == 1 : !is_reducing(program_.collective)) {
      if (tree != wanted[0])
        add_output(rank, chunk,
                   " should hold " +
                       (is_custom() ? promises_.describe_leaf(wanted[0])
                                    : "rank " + std::to_string(wanted[0]) + "'s input") +
                       " alone and holds " + trees_.describe(tree));
      return;
    }
    if (const Tree repeated = trees_.repeated_leaf(tree); repeated != -1)
      return add_output(rank, chunk,
                        " holds " + promises_.describe_leaf(repeated) + " more than once");
    for (const Tree leaf : wanted)
      if (!trees_.contains(tree, leaf))
        return add_output(rank, chunk, " lacks " + promises_.describe_leaf(leaf));
    if (trees_.leaf_count(tree) != static_cast<int>(wanted.size()))
      return add_output(rank, chunk,
                        " holds more than the " + std::to_string(wanted.size()) +
                            " contributions promised: " + trees_.describe(tree));
    check_same_tree(rank, chunk, first);
  }

  void add_output(int rank, int chunk, const std::string& text) {
    const Span span{rank, Buffer::Output, chunk, 1};
    const Tree tree = output(rank, chunk).tree;
    const Node writer = last_writer_[static_cast<size_t>(places_.first_place(span))];
    const FindingPlace place = place_of_output(rank, chunk);
    std::vector<TraceLine> trace;
    if (tree >= 0) trace.push_back({"it holds " + trees_.describe(tree), place});
    if (writer != kNoNode) trace.push_back({"last written by " + graph_.describe(writer), place});
    findings_.add(Rule::Postcondition, place,
                  "rank " + std::to_string(rank) + ": " + to_string(span) + text, std::move(trace));
  }

  // Only all_reduce and custom collectives promise one value to several chunks.
  void check_same_tree(int rank, int chunk, Tree first) {
    const Tree tree = output(rank, chunk).tree;
    if (first < 0 || first == tree) return;
    const auto& [first_rank, first_chunk] =
        first_output_[static_cast<size_t>(promises_.equality_class(rank, chunk))];
    const std::string name = to_string(Span{rank, Buffer::Output, chunk, 1});
    const std::string first_name =
        first_chunk == chunk ? "" : to_string(Span{first_rank, Buffer::Output, first_chunk, 1});
    findings_.add(Rule::Trees, place_of_output(rank, chunk),
                  (first_name.empty() ? name : first_name) + " is " + trees_.describe(first) +
                      " on rank " + std::to_string(first_rank) + " and " +
                      (first_name.empty() ? "" : name + " ") + trees_.describe(tree) + " on rank " +
                      std::to_string(rank));
  }

  std::string name(Node node) const {
    const StepRef ref = graph_.ref_of(node);
    return step_name(graph_.rank_of(node), ref.lane, ref.step);
  }

  static std::string chunk_name(const Span& span, int chunk) {
    return to_string(Span{span.rank, span.buffer, span.index + chunk, 1});
  }

  std::string origin_text(int number) const {
    const Origin origin = places_.origin(number);
    const std::string text = "chunk " + std::to_string(origin.chunk);
    return origin_block_count(program_) > 1 ? text + " of block " + std::to_string(origin.block)
                                            : text;
  }

  std::string operand_text(size_t operand, int chunk) const {
    const Span* span = operand_spans_[operand];
    return (span == nullptr ? "the message" : chunk_name(*span, chunk)) + " holds " +
           origin_text(operands_[operand].origin);
  }

  const StepGraph& graph_;
  const Program& program_;
  const Places& places_;
  Promises& promises_;
  TreePool& trees_;
  FindingList& findings_;
  Proof& proof_;
  Execution execution_;
  std::vector<std::pair<int, int>> first_output_;  // rank and chunk, per Promises::equality_class()
  std::vector<Value> values_;                      // per place
  std::vector<Node> last_writer_;                  // per place
  std::vector<Value> operands_;                    // of the chunk that is combined
  std::vector<const Span*> operand_spans_;         // null: the message
  std::vector<Value> results_;                     // of the step that is executed, chunk by chunk
};

}  // namespace

Execution execute_symbolically(const StepGraph& graph, const std::vector<Node>& order,
                               const Places& places, Promises& promises, TreePool& trees,
                               FindingList& findings, Proof& proof) {
  Executor executor(graph, places, promises, trees, findings, proof);
  for (const Node node : order) {
    if (findings.is_full()) return executor.take();
    executor.execute(node);
  }
  executor.check_postcondition();
  return executor.take();
}

void check_modes_agree(const StepGraph& graph, const TreePool& trees, const Execution& out_of_place,
                       const Execution& in_place, FindingList& findings) {
  for (Node node = 0; node < graph.node_count(); ++node) {
    const size_t end = out_of_place.message_first[static_cast<size_t>(node) + 1];
    for (size_t i = out_of_place.message_first[static_cast<size_t>(node)]; i < end; ++i) {
      const Value& left = out_of_place.messages[i];
      const Value& right = in_place.messages[i];
      if (left == right) continue;
      const StepRef ref = graph.ref_of(node);
      findings.add(Rule::Trees, graph.place_of(node),
                   step_name(graph.rank_of(node), ref.lane, ref.step) + " sends " +
                       trees.describe(left.tree) + " out of place and " +
                       trees.describe(right.tree) + " in place",
                   {graph.trace_line(node)});
      break;
    }
  }
  for (size_t chunk = 0; chunk < out_of_place.output_trees.size(); ++chunk) {
    const Tree left = out_of_place.output_trees[chunk];
    const Tree right = in_place.output_trees[chunk];
    if (left != right)
      findings.add(Rule::Trees, {},
                   "output[" + std::to_string(chunk) + "] is " + trees.describe(left) +
                       " out of place and " + trees.describe(right) + " in place");
  }
}

}  // namespace mccl::judge
