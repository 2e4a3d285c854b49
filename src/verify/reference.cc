// The reference executor: one iteration, one lane step at a time, lanes taken in turn.
//
// Every chunk is a list of elements of its own; memory is a list of chunks per buffer, and in place
// an input chunk is looked up where its alias is. Queues hold two messages, as the engine promises.
// Cost: every round tries every lane. Used by the agreement tests as what is right.
#include "verify/reference.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "ir/collective.h"
#include "ir/opcode.h"
#include "verify/findings.h"
#include "verify/reference_arithmetic.h"
#include "verify/structure.h"

namespace mccl {
namespace judge {
namespace {

using Elements = std::vector<ElementBits>;
using Message = std::vector<Elements>;        // chunk by chunk
using StreamKey = std::tuple<int, int, int>;  // sender, receiver, channel

constexpr size_t kQueueMax = 2;

struct ChunkRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Law L4: chunks of ceil(count / chunk_count) elements, the last ones shorter or empty.
ChunkRange chunk_range(int64_t element_count, int64_t chunk_count, int64_t chunk) {
  const int64_t full = (element_count + chunk_count - 1) / chunk_count;
  const int64_t first = std::min(chunk * full, element_count);
  return {first, std::min(full, element_count - first)};
}

class ReferenceRun {
 public:
  ReferenceRun(const Program& program, const ReferenceCall& call) : program_(program), call_(call) {
    for (const RankProgram& rank : program.ranks) done_counts_.emplace_back(rank.lanes.size(), 0);
  }

  Result<std::vector<Bytes>> run() {
    MCCL_RETURN_IF_ERROR(check_call());
    load_inputs();
    for (bool has_progressed = true; has_progressed;) {
      has_progressed = false;
      for (int rank = 0; rank < program_.rank_count(); ++rank)
        for (size_t lane = 0; lane < lanes_of(rank).size(); ++lane) {
          has_progressed |= try_step(rank, lane);
          if (!failure_.is_ok()) return failure_;
        }
    }
    MCCL_RETURN_IF_ERROR(check_ended());
    return store_outputs();
  }

 private:
  static Status refuse(std::string text) { return {StatusCode::InvalidArgument, std::move(text)}; }

  const std::vector<Lane>& lanes_of(int rank) const {
    return program_.ranks[static_cast<size_t>(rank)].lanes;
  }

  int64_t block_elements(Buffer buffer, int rank, int block) const {
    return call_.block_counts[static_cast<size_t>(origin_block(program_, buffer, rank, block))];
  }

  // Elements of the whole input of a rank.
  int64_t input_elements(int rank) const {
    int64_t count = 0;
    const int blocks = block_count(program_, Buffer::Input, rank);
    for (int block = 0; block < blocks; ++block)
      count += block_elements(Buffer::Input, rank, block);
    return count;
  }

  Status check_call() const {
    if (call_.in_place ? !program_.in_place : !program_.out_of_place)
      return refuse(std::string("the program does not serve ") +
                    (call_.in_place ? "in-place" : "out-of-place") + " calls");
    const int blocks = origin_block_count(program_);
    if (call_.block_counts.size() != static_cast<size_t>(blocks))
      return refuse("the call has " + std::to_string(call_.block_counts.size()) +
                    " block counts; the program has " + counted(blocks, "block"));
    for (const int64_t count : call_.block_counts)
      if (count < 0) return refuse("a block has " + std::to_string(count) + " elements");
    if (call_.inputs.size() != program_.ranks.size())
      return refuse("the call has " + std::to_string(call_.inputs.size()) +
                    " inputs; the program has " + counted(program_.rank_count(), "rank"));
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      if (!holds_input(program_, rank)) continue;
      const size_t wanted = static_cast<size_t>(input_elements(rank)) * dtype_bytes(call_.dtype);
      const size_t found = call_.inputs[static_cast<size_t>(rank)].size();
      if (found != wanted)
        return refuse("rank " + std::to_string(rank) + "'s input has " + std::to_string(found) +
                      " bytes; its blocks have " + std::to_string(wanted));
    }
    return Status::ok();
  }

  // --- memory -----------------------------------------------------------------------------------

  std::optional<Elements>& chunk_at(int rank, Buffer buffer, int index) {
    const int alias =
        call_.in_place && buffer == Buffer::Input ? input_alias(program_, rank, index) : -1;
    if (alias >= 0) {
      index = alias;
      buffer = Buffer::Output;
    }
    return memory_[{rank, buffer, index}];
  }

  void load_inputs() {
    const size_t element_bytes = dtype_bytes(call_.dtype);
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      if (!holds_input(program_, rank)) continue;
      const std::byte* next = call_.inputs[static_cast<size_t>(rank)].data();
      const int chunks = buffer_chunk_count(program_, rank, Buffer::Input);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int64_t count = block_elements(Buffer::Input, rank, chunk / program_.chunk_count);
        const ChunkRange range =
            chunk_range(count, program_.chunk_count, chunk % program_.chunk_count);
        Elements elements(static_cast<size_t>(range.count), 0);
        for (ElementBits& element : elements) {
          std::memcpy(&element, next, element_bytes);
          next += element_bytes;
        }
        chunk_at(rank, Buffer::Input, chunk) = std::move(elements);
      }
    }
  }

  Result<std::vector<Bytes>> store_outputs() {
    const size_t element_bytes = dtype_bytes(call_.dtype);
    std::vector<Bytes> outputs(program_.ranks.size());
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      Bytes& bytes = outputs[static_cast<size_t>(rank)];
      const int chunks = buffer_chunk_count(program_, rank, Buffer::Output);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const std::optional<Elements>& elements = chunk_at(rank, Buffer::Output, chunk);
        if (!elements && is_promised_nothing(rank, chunk)) {
          bytes.resize(bytes.size() + static_cast<size_t>(call_.block_counts[0]) * element_bytes);
          continue;
        }
        if (!elements)
          return Status(StatusCode::Internal, to_string(Span{rank, Buffer::Output, chunk, 1}) +
                                                  " of rank " + std::to_string(rank) +
                                                  " was never written");
        for (ElementBits element : *elements) {
          if (call_.op == ReduceOp::Avg && is_reducing(program_.collective))
            element = divide_element(call_.dtype, element, program_.rank_count());
          bytes.resize(bytes.size() + element_bytes);
          std::memcpy(bytes.data() + bytes.size() - element_bytes, &element, element_bytes);
        }
      }
    }
    return outputs;
  }

  bool is_promised_nothing(int rank, int chunk) const {
    return program_.collective == Collective::Custom &&
           program_.contract[static_cast<size_t>(rank)].outputs[static_cast<size_t>(chunk)].empty();
  }

  Elements load(int rank, const Span& span, int chunk) {
    const std::optional<Elements>& elements = chunk_at(rank, span.buffer, span.index + chunk);
    if (elements) return *elements;
    fail("reads " + to_string(span) + ", of which chunk " + std::to_string(chunk) +
         " was never written");
    return {};
  }

  void store(int rank, const Span& span, int chunk, const Elements& elements) {
    const int index = span.index + chunk;
    if (span.buffer != Buffer::Scratch) {
      const int64_t count = block_elements(span.buffer, rank, index / program_.chunk_count);
      const ChunkRange room =
          chunk_range(count, program_.chunk_count, index % program_.chunk_count);
      if (room.count != static_cast<int64_t>(elements.size()))
        return fail("writes " + std::to_string(elements.size()) + " elements to " +
                    to_string(span) + ", of which chunk " + std::to_string(chunk) + " has " +
                    std::to_string(room.count));
    }
    chunk_at(rank, span.buffer, index) = elements;
  }

  // --- steps ------------------------------------------------------------------------------------

  bool is_done(int rank, const StepRef& ref) const {
    const auto& counts = done_counts_[static_cast<size_t>(rank)];
    return counts[static_cast<size_t>(ref.lane)] > static_cast<size_t>(ref.step);
  }

  bool try_step(int rank, size_t lane_index) {
    auto& counts = done_counts_[static_cast<size_t>(rank)];
    const Lane& lane = lanes_of(rank)[lane_index];
    if (counts[lane_index] == lane.steps.size()) return false;
    const Step& step = lane.steps[counts[lane_index]];
    const OpcodeRow& row = opcode_row(step.opcode);
    for (const StepRef& dependence : step.dependences)
      if (!is_done(rank, dependence)) return false;
    std::deque<Message>* received = nullptr;
    std::deque<Message>* sent = nullptr;
    if (row.receives) received = &queues_[{lane.recv_peer, rank, lane.channel}];
    if (row.sends) sent = &queues_[{rank, lane.send_peer, lane.channel}];
    if (received != nullptr && received->empty()) return false;
    if (sent != nullptr && sent->size() == kQueueMax) return false;

    current_ = to_string(program_, rank,
                         {static_cast<int>(lane_index), static_cast<int>(counts[lane_index])});
    Message message;
    if (received != nullptr) {
      message = std::move(received->front());
      received->pop_front();
    }
    Message results = execute(rank, step, row, message);
    if (sent != nullptr) sent->push_back(std::move(results));
    ++counts[lane_index];
    return true;
  }

  // Reads all operands of all chunks, then writes; returns what the step gives when it sends.
  Message execute(int rank, const Step& step, const OpcodeRow& row, const Message& message) {
    const int count = step_chunk_count(step);
    if (row.receives && message.size() != static_cast<size_t>(count)) {
      fail("takes a message of " + counted(static_cast<int64_t>(message.size()), "chunk") +
           " for a span of " + std::to_string(count));
      return {};
    }
    Message results;
    for (int chunk = 0; chunk < count; ++chunk) {
      std::vector<Elements> operands;
      if (row.receives) operands.push_back(message[static_cast<size_t>(chunk)]);
      if (step.opcode == Opcode::Reduce)
        operands.push_back(load(rank, step.destinations[0], chunk));
      for (const Span& span : step.sources) operands.push_back(load(rank, span, chunk));
      results.push_back(combine(operands));
    }
    for (const Span& span : step.destinations)
      for (int chunk = 0; chunk < count; ++chunk)
        store(rank, span, chunk, results[static_cast<size_t>(chunk)]);
    return results;
  }

  Elements combine(const std::vector<Elements>& operands) {
    Elements result;
    std::vector<ElementBits> column;
    for (const Elements& operand : operands)
      if (operand.size() != operands[0].size()) {
        fail("combines chunks of " + std::to_string(operands[0].size()) + " and " +
             std::to_string(operand.size()) + " elements");
        return result;
      }
    for (size_t i = 0; i < operands[0].size(); ++i) {
      column.clear();
      for (const Elements& operand : operands) column.push_back(operand[i]);
      result.push_back(combine_elements(call_.dtype, call_.op, column));
    }
    return result;
  }

  // --- the end ----------------------------------------------------------------------------------

  // The first failure is the one that is reported.
  void fail(const std::string& text) {
    if (failure_.is_ok()) failure_ = Status(StatusCode::Internal, current_ + ": " + text);
  }

  Status check_ended() const {
    std::string trace;
    for (int rank = 0; rank < program_.rank_count(); ++rank)
      for (size_t lane = 0; lane < lanes_of(rank).size(); ++lane) {
        const size_t done = done_counts_[static_cast<size_t>(rank)][lane];
        if (done < lanes_of(rank)[lane].steps.size())
          trace +=
              "\n  " + to_string(program_, rank, {static_cast<int>(lane), static_cast<int>(done)});
      }
    if (!trace.empty())
      return {StatusCode::Internal, "the program cannot go on; these steps wait:" + trace};
    for (const auto& [stream, queue] : queues_)
      if (!queue.empty())
        return {StatusCode::Internal,
                "the stream from rank " + std::to_string(std::get<0>(stream)) + " to rank " +
                    std::to_string(std::get<1>(stream)) + " on channel " +
                    std::to_string(std::get<2>(stream)) + " ends with " +
                    counted(static_cast<int64_t>(queue.size()), "message") + " in it"};
    return Status::ok();
  }

  const Program& program_;
  const ReferenceCall& call_;
  std::map<std::tuple<int, Buffer, int>, std::optional<Elements>> memory_;
  std::map<StreamKey, std::deque<Message>> queues_;
  std::vector<std::vector<size_t>> done_counts_;  // [rank][lane]
  std::string current_;                           // the step that is executed, for messages
  Status failure_;
};

}  // namespace
}  // namespace judge

Result<std::vector<Bytes>> execute_reference(const Program& program, const ReferenceCall& call) {
  judge::FindingList findings(call.in_place);
  judge::check_structure(program, findings);
  if (!findings.is_empty())
    return Status(StatusCode::InvalidArgument, findings.take().front().text);
  return judge::ReferenceRun(program, call).run();
}

}  // namespace mccl
