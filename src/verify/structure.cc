// Structure: everything that can be judged by looking at one rank at a time.
//
// Sizes are judged first, in 64 bits, because the helpers of program.h multiply ints. A step whose
// opcode or span counts are wrong is not looked at further, so no check reads what is not there.
#include "verify/structure.h"

#include <algorithm>
#include <tuple>

#include "ir/collective.h"
#include "ir/opcode.h"

namespace mccl::judge {
namespace {

class StructureCheck {
 public:
  StructureCheck(const Program& program, FindingList& findings)
      : program_(program), findings_(findings) {}

  void run() {
    check_sizes();
    if (!findings_.is_empty()) return;
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      check_stream_ends(rank);
      const auto& lanes = program_.ranks[static_cast<size_t>(rank)].lanes;
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        place_ = {rank, static_cast<int>(lane), -1};
        check_lane(rank, static_cast<int>(lane), lanes[lane]);
        for (size_t step = 0; step < lanes[lane].steps.size(); ++step) {
          if (findings_.is_full()) return;
          place_.step = static_cast<int>(step);
          check_step(rank, static_cast<int>(lane), static_cast<int>(step));
        }
      }
    }
  }

 private:
  void add(std::string text) { findings_.add(Rule::Structure, place_, std::move(text)); }

  void check_limit(int64_t value, int64_t min, int64_t max, const char* noun,
                   const char* where = "") {
    if (value >= min && value <= max) return;
    add("the program has " + counted(value, noun) + where + "; " + std::to_string(min) + " to " +
        std::to_string(max) + " are allowed");
  }

  void check_sizes() {
    const auto rank_count = static_cast<int64_t>(program_.ranks.size());
    check_limit(rank_count, 1, kRanksMax, "rank");
    check_limit(program_.chunk_count, 1, kChunksMax, "chunk");
    if (program_.collective > Collective::Custom)
      add("the program has collective number " +
          std::to_string(static_cast<int>(program_.collective)) + ", which does not exist");
    if (!program_.in_place && !program_.out_of_place)
      add("the program claims to serve neither in-place nor out-of-place calls");
    if (findings_.is_empty()) check_contract();
    if (!findings_.is_empty()) return;
    if (program_.in_place && !in_place_shift(program_, 0))
      add("the program claims to serve in-place calls, which " +
          std::string(collective_name(program_.collective)) + " does not have");

    // There are never more origins than blocks, and kRanksMax squared fits an int.
    const auto ranks = static_cast<int>(rank_count);
    int64_t blocks = 0;
    for (int rank = 0; rank < ranks; ++rank)
      for (const Buffer buffer : {Buffer::Input, Buffer::Output})
        blocks += block_count(program_, buffer, rank);
    int64_t chunks = blocks * program_.chunk_count;
    int64_t steps = 0;
    int64_t accesses = 0;
    for (int rank = 0; rank < rank_count; ++rank) {
      const RankProgram& rank_program = program_.ranks[static_cast<size_t>(rank)];
      place_.rank = rank;
      if (rank_program.scratch_chunk_count < 0)
        add("rank " + std::to_string(rank) + " has " +
            std::to_string(rank_program.scratch_chunk_count) + " scratch chunks");
      else
        chunks += rank_program.scratch_chunk_count;
      for (const Lane& lane : rank_program.lanes) {
        steps += static_cast<int64_t>(lane.steps.size());
        for (const Step& step : lane.steps) accesses += named_chunk_count(step);
      }
    }
    place_ = {};
    check_limit(chunks, 0, kChunksMax, "chunk", " in all buffers");
    check_limit(steps, 0, kStepsMax, "step");
    check_limit(accesses, 0, kChunkAccessesMax, "chunk operand");
  }

  void check_contract() {
    const auto rank_count = static_cast<int64_t>(program_.ranks.size());
    const auto promised = static_cast<int64_t>(program_.contract.size());
    if (program_.collective != Collective::Custom) {
      if (promised != 0)
        add("the program has a contract of its own; " +
            std::string(collective_name(program_.collective)) + " has none");
      return;
    }
    if (promised != rank_count)
      return add("the contract is for " + counted(promised, "rank") + "; the program has " +
                 std::to_string(rank_count));
    if (program_.chunk_count != 1)
      return add("a custom collective has 1 chunk per block, and the program says " +
                 std::to_string(program_.chunk_count));
    int64_t chunks = 0;
    int64_t contributions = 0;
    for (int rank = 0; rank < rank_count; ++rank) {
      const CustomRank& promise = program_.contract[static_cast<size_t>(rank)];
      if (promise.input_chunk_count < 0)
        return add("rank " + std::to_string(rank) + " has " +
                   std::to_string(promise.input_chunk_count) + " input chunks");
      chunks += promise.input_chunk_count + static_cast<int64_t>(promise.outputs.size());
      for (const auto& wanted : promise.outputs)
        contributions += static_cast<int64_t>(wanted.size());
    }
    check_limit(chunks, 0, kChunksMax, "chunk", " in all buffers");
    check_limit(contributions, 1, kChunkAccessesMax, "contribution", " promised in its outputs");
    for (int rank = 0; rank < rank_count && findings_.is_empty(); ++rank) check_promises(rank);
  }

  void check_promises(int rank) {
    const CustomRank& promise = program_.contract[static_cast<size_t>(rank)];
    for (size_t chunk = 0; chunk < promise.outputs.size(); ++chunk) {
      const std::vector<Contribution>& wanted = promise.outputs[chunk];
      for (size_t part = 0; part < wanted.size(); ++part) {
        const Contribution& one = wanted[part];
        const std::string start = "output[" + std::to_string(chunk) + "] of rank " +
                                  std::to_string(rank) + " is promised input[" +
                                  std::to_string(one.index) + "] of rank " +
                                  std::to_string(one.rank);
        if (one.rank < 0 || one.rank >= program_.rank_count())
          add(start + "; the ranks are 0 to " + std::to_string(program_.rank_count() - 1));
        else if (const int size =
                     program_.contract[static_cast<size_t>(one.rank)].input_chunk_count;
                 one.index < 0 || one.index >= size)
          add(start + ", whose input has " + counted(size, "chunk"));
        else if (part > 0 && !(wanted[part - 1] < one))
          add(start + " out of order or twice");
      }
    }
  }

  static int64_t named_chunk_count(const Step& step) {
    auto count = static_cast<int64_t>(step.dependences.size());
    for (const Span& span : step.sources) count += std::max(span.count, 1);
    for (const Span& span : step.destinations) count += std::max(span.count, 1);
    return count;
  }

  void check_lane(int rank, int lane_index, const Lane& lane) {
    check_peer(rank, lane_index, lane.send_peer, "sends to");
    check_peer(rank, lane_index, lane.recv_peer, "receives from");
    if (lane.channel < 0 || lane.channel > kChannelMax)
      add(lane_name(rank, lane_index) + " has channel " + std::to_string(lane.channel) +
          "; channels are 0 to " + std::to_string(kChannelMax));
  }

  void check_peer(int rank, int lane_index, int peer, const char* verb) {
    if (peer == -1) return;
    const std::string start =
        lane_name(rank, lane_index) + " " + verb + " rank " + std::to_string(peer);
    if (peer < 0 || peer >= program_.rank_count())
      add(start + "; the ranks are 0 to " + std::to_string(program_.rank_count() - 1));
    else if (peer == rank)
      add(start + ", which is itself; use a copy");
  }

  void check_stream_ends(int rank) {
    const auto& lanes = program_.ranks[static_cast<size_t>(rank)].lanes;
    for (const bool sends : {true, false}) {
      std::vector<std::tuple<int, int, int>> ends;  // peer, channel, lane
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        const int peer = sends ? lanes[lane].send_peer : lanes[lane].recv_peer;
        if (peer != -1) ends.emplace_back(peer, lanes[lane].channel, static_cast<int>(lane));
      }
      std::sort(ends.begin(), ends.end());
      for (size_t i = 1; i < ends.size(); ++i) {
        const auto& [peer, channel, lane] = ends[i];
        const auto& [last_peer, last_channel, last_lane] = ends[i - 1];
        if (peer != last_peer || channel != last_channel) continue;
        place_ = {rank, lane, -1};
        add("rank " + std::to_string(rank) + ": lanes " + std::to_string(last_lane) + " and " +
            std::to_string(lane) + (sends ? " both send to rank " : " both receive from rank ") +
            std::to_string(peer) + " on channel " + std::to_string(channel) +
            "; a stream end belongs to one lane");
      }
    }
  }

  void check_step(int rank, int lane_index, int step_index) {
    const Lane& lane = lane_at(rank, lane_index);
    const Step& step = lane.steps[static_cast<size_t>(step_index)];
    const std::string name = step_name(rank, lane_index, step_index);
    if (static_cast<size_t>(step.opcode) >= opcodes().size())
      return add(name + " has opcode number " + std::to_string(static_cast<int>(step.opcode)) +
                 ", which does not exist");
    const OpcodeRow& row = opcode_row(step.opcode);
    const std::string start = name + ": " + std::string(row.spelling);
    if (row.sends && lane.send_peer == -1) add(start + " sends, but its lane has no send peer");
    if (row.receives && lane.recv_peer == -1)
      add(start + " receives, but its lane has no receive peer");
    check_dependences(rank, lane_index, step, name);
    const bool sources_fit = check_arity(start, "source", row.reads, step.sources.size());
    const bool destinations_fit =
        check_arity(start, "destination", row.writes, step.destinations.size());
    if (!sources_fit || !destinations_fit) return;
    for (const Span& span : step.sources) check_span(rank, step, span, name);
    for (const Span& span : step.destinations) check_span(rank, step, span, name);
  }

  const Lane& lane_at(int rank, int lane) const {
    return program_.ranks[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane)];
  }

  bool check_arity(const std::string& start, const char* noun, int wanted, size_t found) {
    if (wanted == -1 ? found >= 1 : static_cast<size_t>(wanted) == found) return true;
    add(start + " has " + counted(static_cast<int64_t>(found), noun) + "; it takes " +
        (wanted == -1 ? "at least 1" : std::to_string(wanted)));
    return false;
  }

  void check_span(int rank, const Step& step, const Span& span, const std::string& name) {
    const std::string start = name + " names " + to_string(span);
    if (span.rank != rank)
      return add(start + " of rank " + std::to_string(span.rank) +
                 "; a step may name another rank's memory only inside a memory domain, and the " +
                 "program declares none");
    if (span.buffer > Buffer::Scratch)
      return add(name + " names buffer number " + std::to_string(static_cast<int>(span.buffer)) +
                 ", which does not exist");
    if (span.count < 1)
      return add(name + " names a span of " + counted(span.count, "chunk") +
                 "; spans have at least 1");
    const int size = buffer_chunk_count(program_, rank, span.buffer);
    if (span.index < 0 || int64_t{span.index} + span.count > size)
      add(start + ", but " + buffer_name(span.buffer) + " has " + counted(size, "chunk"));
    if (span.count != step_chunk_count(step))
      add(name + " names spans of " + std::to_string(step_chunk_count(step)) + " and " +
          std::to_string(span.count) + " chunks; all spans of a step have the same count");
  }

  void check_dependences(int rank, int lane_index, const Step& step, const std::string& name) {
    const auto& lanes = program_.ranks[static_cast<size_t>(rank)].lanes;
    for (size_t i = 0; i < step.dependences.size(); ++i) {
      const StepRef& ref = step.dependences[i];
      const std::string target =
          "lane " + std::to_string(ref.lane) + " step " + std::to_string(ref.step);
      if (ref.lane < 0 || static_cast<size_t>(ref.lane) >= lanes.size() || ref.step < 0 ||
          static_cast<size_t>(ref.step) >= lane_at(rank, ref.lane).steps.size())
        add(name + " depends on " + target + ", which does not exist");
      else if (ref.lane == lane_index)
        add(name + " depends on " + target + " of its own lane");
      if (i > 0 && !(step.dependences[i - 1] < ref))
        add(name + " depends on " + target + " out of order or twice");
    }
  }

  const Program& program_;
  FindingList& findings_;
  FindingPlace place_;  // what is being looked at
};

}  // namespace

void check_structure(const Program& program, FindingList& findings) {
  StructureCheck(program, findings).run();
}

int step_chunk_count(const Step& step) {
  return step.destinations.empty() ? step.sources[0].count : step.destinations[0].count;
}

}  // namespace mccl::judge
