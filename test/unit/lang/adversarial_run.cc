#include "unit/lang/adversarial_run.h"

#include <deque>

#include "base/prng.h"
#include "ir/opcode.h"

namespace mccl {
namespace {

using Values = std::vector<uint64_t>;

Values sum(const Values& left, const Values& right) {
  Values result = left;
  for (size_t index = 0; index < result.size(); ++index) result[index] += right[index];
  return result;
}

class Run {
 public:
  Run(const Program& program, Memory& memory) : program_(program), memory_(memory) {
    for (int rank = 0; rank < program.rank_count(); ++rank) {
      const size_t lanes = program.ranks[static_cast<size_t>(rank)].lanes.size();
      done_.emplace_back(lanes, 0);
      for (size_t lane = 0; lane < lanes; ++lane) lanes_.emplace_back(rank, lane);
    }
  }

  std::string run(uint64_t seed) {
    Prng prng(seed);
    while (true) {
      std::vector<std::pair<int, size_t>> ready;
      for (const auto& lane : lanes_)
        if (can_run(lane.first, lane.second)) ready.push_back(lane);
      if (ready.empty()) return describe_rest();
      const auto [rank, lane] = ready[prng.below(ready.size())];
      execute(rank, lane);
    }
  }

 private:
  const Lane& lane_at(int rank, size_t lane) const {
    return program_.ranks[static_cast<size_t>(rank)].lanes[lane];
  }
  size_t& done(int rank, size_t lane) { return done_[static_cast<size_t>(rank)][lane]; }
  std::deque<Values>& taken_from(int rank, const Lane& lane) {
    return streams_[{lane.recv_peer, rank, lane.channel}];
  }
  std::deque<Values>& given_to(int rank, const Lane& lane) {
    return streams_[{rank, lane.send_peer, lane.channel}];
  }

  bool can_run(int rank, size_t lane_index) {
    const Lane& lane = lane_at(rank, lane_index);
    if (done(rank, lane_index) == lane.steps.size()) return false;
    const Step& step = lane.steps[done(rank, lane_index)];
    for (const StepRef& ref : step.dependences)
      if (done(rank, static_cast<size_t>(ref.lane)) <= static_cast<size_t>(ref.step)) return false;
    const OpcodeRow& row = opcode_row(step.opcode);
    if (row.receives && taken_from(rank, lane).empty()) return false;
    return !row.sends || given_to(rank, lane).size() < 2;
  }

  void execute(int rank, size_t lane_index) {
    const Lane& lane = lane_at(rank, lane_index);
    const Step& step = lane.steps[done(rank, lane_index)++];
    const OpcodeRow& row = opcode_row(step.opcode);
    Values value;
    if (row.receives) {
      value = taken_from(rank, lane).front();
      taken_from(rank, lane).pop_front();
    }
    if (step.opcode == Opcode::Reduce) value = memory_.load(step.destinations[0]);
    for (const Span& source : step.sources)
      value = value.empty() ? memory_.load(source) : sum(value, memory_.load(source));
    for (const Span& destination : step.destinations) memory_.store(destination, value);
    if (row.sends) given_to(rank, lane).push_back(value);
  }

  std::string describe_rest() {
    std::string text;
    for (const auto& [rank, lane] : lanes_)
      if (done(rank, lane) < lane_at(rank, lane).steps.size())
        text += to_string(program_, rank,
                          {static_cast<int>(lane), static_cast<int>(done(rank, lane))}) +
                "\n";
    for (const auto& [name, messages] : streams_)
      if (!messages.empty()) text += "a message is left over\n";
    return text;
  }

  const Program& program_;
  Memory& memory_;
  std::vector<std::pair<int, size_t>> lanes_;
  std::vector<std::vector<size_t>> done_;
  std::map<std::tuple<int, int, int>, std::deque<Values>> streams_;
};

}  // namespace

std::vector<uint64_t> Memory::load(const Span& span) {
  std::vector<uint64_t> values;
  for (int index = 0; index < span.count; ++index)
    values.push_back(at(span.rank, span.buffer, span.index + index));
  return values;
}

void Memory::store(const Span& span, const std::vector<uint64_t>& values) {
  for (int index = 0; index < span.count; ++index)
    at(span.rank, span.buffer, span.index + index) = values[static_cast<size_t>(index)];
}

std::vector<uint64_t> Memory::outputs() {
  std::vector<uint64_t> values;
  for (int rank = 0; rank < program_.rank_count(); ++rank)
    for (int index = 0; index < buffer_chunk_count(program_, rank, Buffer::Output); ++index)
      values.push_back(at(rank, Buffer::Output, index));
  return values;
}

std::string run_adversarially(const Program& program, Memory& memory, uint64_t seed) {
  return Run(program, memory).run(seed);
}

}  // namespace mccl
