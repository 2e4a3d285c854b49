// A depth-first search over states, each visited once.
//
// An action is a lane's next step, or the capture of a stream's oldest message that was sent by
// reference. Where one enabled action conflicts with nothing that may still come before it, it is
// taken alone: every other order reaches the same states (a persistent set of one; the state graph
// has no cycles). What comes "before" is judged by plain dependences and capture waits only, so
// that orders which follow from messages are really tried. Values are texts, interned; text
// equality is tree equality.
#include "support/schedule_explorer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "base/prng.h"
#include "ir/collective.h"
#include "ir/opcode.h"

namespace mccl {
namespace {

constexpr int kIterationCount = 2;
constexpr int kCredits = 2;
constexpr int kGarbage = 0;

struct ValuePool {
  std::vector<std::string> texts{"?"};
  std::map<std::string, int> ids{{"?", kGarbage}};

  int intern(const std::string& text) {
    const auto [entry, is_new] = ids.emplace(text, static_cast<int>(texts.size()));
    if (is_new) texts.push_back(text);
    return entry->second;
  }
  int leaf(int rank, int origin) {
    return intern("<" + std::to_string(rank) + "." + std::to_string(origin) + ">");
  }
  int reduce(std::vector<int> operands) {
    if (operands.size() == 1) return operands[0];
    std::vector<std::string> parts;
    for (const int operand : operands) parts.push_back(texts[static_cast<size_t>(operand)]);
    if (parts[1] < parts[0]) std::swap(parts[0], parts[1]);
    std::string text = "(";
    for (const std::string& part : parts) text += part;
    return intern(text + ")");
  }
};

using Places = std::vector<int>;

struct FlatStep {
  const Step* step;
  const OpcodeRow* row;
  Places reads;
  Places writes;
  Places sent;  // by reference
  std::vector<StepRef> capture_waits;
};

struct FlatLane {
  int rank;
  int first_lane;  // of the rank
  int send_stream = -1;
  int recv_stream = -1;
  std::vector<FlatStep> steps;
};

struct Message {
  int lane = 0;
  int step = 0;
  int iteration = 0;
  bool is_captured = false;
  std::vector<int> values;
};

struct State {
  std::vector<int> done;  // steps per lane, over all iterations
  std::vector<std::deque<Message>> queues;
  std::vector<std::vector<int>> memory;  // [iteration][place]

  std::string key() const {
    std::string text;
    const auto put = [&](int value) {
      text += static_cast<char>(value & 0xff);
      text += static_cast<char>(value >> 8 & 0xff);
    };
    for (const int count : done) put(count);
    for (const auto& queue : queues) {
      put(static_cast<int>(queue.size()));
      for (const Message& message : queue) {
        put(message.is_captured ? 1 : 0);
        for (const int value : message.values) put(value);
      }
    }
    for (const auto& iteration : memory)
      for (const int value : iteration) put(value);
    return text;
  }
};

struct Action {
  int lane = -1;    // the next step of this lane, or
  int stream = -1;  // the capture of this stream's oldest uncaptured message
};

bool intersects(const Places& left, const Places& right) {
  return std::any_of(left.begin(), left.end(), [&](int place) {
    return std::find(right.begin(), right.end(), place) != right.end();
  });
}

class Explorer {
 public:
  Explorer(const Program& program, const Proof& proof, bool in_place)
      : program_(program), in_place_(in_place) {
    flatten(proof);
    place_inputs();
  }

  Exploration run(int64_t state_limit, int sample_count) {
    std::unordered_set<std::string> seen;
    std::vector<State> stack{initial_};
    while (!stack.empty() && result_.is_right) {
      const State state = std::move(stack.back());
      stack.pop_back();
      if (!seen.insert(state.key()).second) continue;
      if (static_cast<int64_t>(seen.size()) > state_limit) {
        result_.is_exhaustive = false;
        sample(sample_count);
        break;
      }
      for (const Action& action : choose_actions(state)) {
        stack.push_back(state);
        apply(stack.back(), action);
      }
    }
    result_.state_count = static_cast<int64_t>(seen.size());
    return result_;
  }

 private:
  // The place of the span's chunk number `offset`.
  int place_of(const Span& span, int offset = 0) const {
    const int index = span.index + offset;
    const bool may_alias = in_place_ && span.buffer == Buffer::Input;
    const int alias = may_alias ? input_alias(program_, span.rank, index) : -1;
    if (alias >= 0) return first_place_.at({span.rank, Buffer::Output}) + alias;
    return first_place_.at({span.rank, span.buffer}) + index;
  }

  // The chunk that a chunk of input or output holds or will hold, as one number.
  int origin_of(int rank, Buffer buffer, int chunk) const {
    const int chunks = program_.chunk_count;
    return origin_block(program_, buffer, rank, chunk / chunks) * chunks + chunk % chunks;
  }

  void add_places(Places& places, const Span& span) const {
    for (int i = 0; i < span.count; ++i) places.push_back(place_of(span, i));
  }

  int stream(int sender, int receiver, int channel) {
    return streams_
        .emplace(std::tuple(sender, receiver, channel), static_cast<int>(streams_.size()))
        .first->second;
  }

  void flatten(const Proof& proof) {
    for (int rank = 0; rank < program_.rank_count(); ++rank)
      for (const Buffer buffer : {Buffer::Input, Buffer::Output, Buffer::Scratch}) {
        first_place_[{rank, buffer}] = place_count_;
        place_count_ += buffer_chunk_count(program_, rank, buffer);
      }
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      const int first_lane = static_cast<int>(lanes_.size());
      const auto& lanes = program_.ranks[static_cast<size_t>(rank)].lanes;
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        FlatLane flat{rank, first_lane, -1, -1, {}};
        if (lanes[lane].send_peer >= 0)
          flat.send_stream = stream(rank, lanes[lane].send_peer, lanes[lane].channel);
        if (lanes[lane].recv_peer >= 0)
          flat.recv_stream = stream(lanes[lane].recv_peer, rank, lanes[lane].channel);
        for (size_t step = 0; step < lanes[lane].steps.size(); ++step)
          flat.steps.push_back(
              flatten_step(lanes[lane].steps[step],
                           proof.steps[static_cast<size_t>(rank)][lane][step].capture_waits));
        lanes_.push_back(std::move(flat));
      }
    }
  }

  FlatStep flatten_step(const Step& step, const std::vector<StepRef>& capture_waits) const {
    FlatStep flat{&step, &opcode_row(step.opcode), {}, {}, {}, capture_waits};
    for (const Span& span : step.sources) add_places(flat.reads, span);
    for (const Span& span : step.destinations) add_places(flat.writes, span);
    if (step.opcode == Opcode::Reduce) add_places(flat.reads, step.destinations[0]);
    if (const Span* span = sent_span(step)) add_places(flat.sent, *span);
    return flat;
  }

  void place_inputs() {
    initial_.done.assign(lanes_.size(), 0);
    initial_.queues.resize(streams_.size());
    initial_.memory.assign(kIterationCount,
                           std::vector<int>(static_cast<size_t>(place_count_), kGarbage));
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      if (!holds_input(program_, rank)) continue;
      for (int chunk = 0; chunk < buffer_chunk_count(program_, rank, Buffer::Input); ++chunk)
        for (auto& memory : initial_.memory)
          memory[static_cast<size_t>(place_of({rank, Buffer::Input, chunk, 1}))] =
              pool_.leaf(rank, origin_of(rank, Buffer::Input, chunk));
    }
  }

  int length(int lane) const {
    return static_cast<int>(lanes_[static_cast<size_t>(lane)].steps.size());
  }
  bool is_finished(const State& state, int lane) const {
    return state.done[static_cast<size_t>(lane)] == kIterationCount * length(lane);
  }
  const FlatStep& next_step(const State& state, int lane) const {
    return lanes_[static_cast<size_t>(lane)]
        .steps[static_cast<size_t>(state.done[static_cast<size_t>(lane)] % length(lane))];
  }
  int iteration(const State& state, int lane) const {
    return state.done[static_cast<size_t>(lane)] / length(lane);
  }

  bool is_step_enabled(const State& state, int lane) const {
    if (is_finished(state, lane)) return false;
    const FlatLane& flat = lanes_[static_cast<size_t>(lane)];
    const FlatStep& step = next_step(state, lane);
    const int now = iteration(state, lane);
    for (const StepRef& ref : step.step->dependences) {
      const int target = flat.first_lane + ref.lane;
      if (state.done[static_cast<size_t>(target)] <= now * length(target) + ref.step) return false;
    }
    if (step.row->receives) {
      const auto& queue = state.queues[static_cast<size_t>(flat.recv_stream)];
      if (queue.empty() || !queue.front().is_captured) return false;
    }
    if (step.row->sends && state.queues[static_cast<size_t>(flat.send_stream)].size() >= kCredits)
      return false;
    for (const StepRef& ref : step.capture_waits)
      if (!is_captured(state, flat.first_lane + ref.lane, ref.step, now)) return false;
    return true;
  }

  bool is_captured(const State& state, int lane, int step, int now) const {
    if (state.done[static_cast<size_t>(lane)] <= now * length(lane) + step) return false;
    const FlatLane& flat = lanes_[static_cast<size_t>(lane)];
    for (const Message& message : state.queues[static_cast<size_t>(flat.send_stream)])
      if (message.lane == lane && message.step == step && message.iteration == now)
        return message.is_captured;
    return true;
  }

  static const Message* oldest_uncaptured(const std::deque<Message>& queue) {
    for (const Message& message : queue)
      if (!message.is_captured) return &message;
    return nullptr;
  }

  // Whether some step of `rank`, not done in iteration `now`, may still come before an action and
  // `conflicts` with it. `is_barrier` tells of a step that cannot run before the action has.
  template <typename Conflicts, typename IsBarrier>
  bool has_rival(const State& state, int rank, int now, int except_lane, Conflicts conflicts,
                 IsBarrier is_barrier) const {
    for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) {
      const FlatLane& flat = lanes_[static_cast<size_t>(lane)];
      if (flat.rank != rank || lane == except_lane) continue;
      const int first = std::max(0, state.done[static_cast<size_t>(lane)] - now * length(lane));
      for (int step = first; step < length(lane); ++step) {
        const FlatStep& rival = flat.steps[static_cast<size_t>(step)];
        if (is_barrier(rival)) break;
        if (conflicts(rival)) return true;
      }
    }
    return false;
  }

  bool is_step_alone(const State& state, int lane) const {
    const FlatLane& flat = lanes_[static_cast<size_t>(lane)];
    const FlatStep& step = next_step(state, lane);
    const int now = iteration(state, lane);
    const StepRef self{lane - flat.first_lane,
                       state.done[static_cast<size_t>(lane)] % length(lane)};
    for (const auto& queue : state.queues)
      for (const Message& message : queue) {
        const FlatLane& sender = lanes_[static_cast<size_t>(message.lane)];
        if (!message.is_captured && sender.rank == flat.rank && message.iteration == now &&
            intersects(sender.steps[static_cast<size_t>(message.step)].sent, step.writes))
          return false;
      }
    return !has_rival(
        state, flat.rank, now, lane,
        [&](const FlatStep& rival) {
          return intersects(step.writes, rival.reads) || intersects(step.writes, rival.writes) ||
                 intersects(step.reads, rival.writes);
        },
        [&](const FlatStep& rival) {
          return std::any_of(
              rival.step->dependences.begin(), rival.step->dependences.end(),
              [&](const StepRef& ref) { return ref.lane == self.lane && ref.step >= self.step; });
        });
  }

  bool is_capture_alone(const State& state, const Message& message) const {
    const FlatLane& sender = lanes_[static_cast<size_t>(message.lane)];
    const Places& sent = sender.steps[static_cast<size_t>(message.step)].sent;
    const int lane = message.lane - sender.first_lane;
    return !has_rival(
        state, sender.rank, message.iteration, -1,
        [&](const FlatStep& rival) { return intersects(sent, rival.writes); },
        [&](const FlatStep& rival) {
          return std::any_of(
              rival.capture_waits.begin(), rival.capture_waits.end(),
              [&](const StepRef& ref) { return ref.lane == lane && ref.step >= message.step; });
        });
  }

  std::vector<Action> enabled_actions(const State& state, bool may_reduce) const {
    std::vector<Action> actions;
    for (int stream = 0; stream < static_cast<int>(state.queues.size()); ++stream) {
      const Message* message = oldest_uncaptured(state.queues[static_cast<size_t>(stream)]);
      if (message == nullptr) continue;
      if (may_reduce && is_capture_alone(state, *message)) return {{-1, stream}};
      actions.push_back({-1, stream});
    }
    for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) {
      if (!is_step_enabled(state, lane)) continue;
      if (may_reduce && is_step_alone(state, lane)) return {{lane, -1}};
      actions.push_back({lane, -1});
    }
    return actions;
  }

  std::vector<Action> choose_actions(const State& state) {
    std::vector<Action> actions = enabled_actions(state, true);
    if (actions.empty()) check_end(state);
    return actions;
  }

  void apply(State& state, const Action& action) {
    if (action.stream != -1) {
      auto& queue = state.queues[static_cast<size_t>(action.stream)];
      const auto index = oldest_uncaptured(queue);
      for (Message& message : queue)
        if (&message == index) capture(state, message);
      return;
    }
    take_step(state, action.lane);
  }

  void capture(const State& state, Message& message) const {
    const Places& sent =
        lanes_[static_cast<size_t>(message.lane)].steps[static_cast<size_t>(message.step)].sent;
    for (size_t i = 0; i < sent.size(); ++i)
      message.values[i] =
          state.memory[static_cast<size_t>(message.iteration)][static_cast<size_t>(sent[i])];
    message.is_captured = true;
  }

  void take_step(State& state, int lane) {
    const FlatLane& flat = lanes_[static_cast<size_t>(lane)];
    const FlatStep& step = next_step(state, lane);
    const int now = iteration(state, lane);
    auto& memory = state.memory[static_cast<size_t>(now)];
    const Step& what = *step.step;
    const int count =
        what.destinations.empty() ? what.sources[0].count : what.destinations[0].count;
    std::vector<int> received(static_cast<size_t>(count), kGarbage);
    if (step.row->receives) {
      auto& queue = state.queues[static_cast<size_t>(flat.recv_stream)];
      received = queue.front().values;
      received.resize(static_cast<size_t>(count), kGarbage);
      queue.pop_front();
    }
    std::vector<int> values;
    for (int chunk = 0; chunk < count; ++chunk) {
      std::vector<int> operands;
      if (step.row->receives) operands.push_back(received[static_cast<size_t>(chunk)]);
      if (what.opcode == Opcode::Reduce)
        operands.push_back(memory[static_cast<size_t>(place_of(what.destinations[0]) + chunk)]);
      for (const Span& span : what.sources)
        operands.push_back(memory[static_cast<size_t>(place_of(span) + chunk)]);
      values.push_back(pool_.reduce(std::move(operands)));
    }
    for (const Span& span : what.destinations)
      for (int chunk = 0; chunk < count; ++chunk)
        memory[static_cast<size_t>(place_of(span) + chunk)] = values[static_cast<size_t>(chunk)];
    if (step.row->sends)
      state.queues[static_cast<size_t>(flat.send_stream)].push_back(
          {lane, state.done[static_cast<size_t>(lane)] % length(lane), now, step.sent.empty(),
           step.sent.empty() ? values : std::vector<int>(values.size(), kGarbage)});
    ++state.done[static_cast<size_t>(lane)];
  }

  // Schedules that take any enabled action, without reduction.
  void sample(int count) {
    for (int i = 0; i < count && result_.is_right; ++i) {
      State state = initial_;
      for (;;) {
        const std::vector<Action> actions = enabled_actions(state, false);
        if (actions.empty()) break;
        apply(state, actions[prng_.below(actions.size())]);
      }
      check_end(state);
    }
  }

  void fail(std::string text) {
    result_.is_right = false;
    result_.fault = std::move(text);
  }

  void check_end(const State& state) {
    for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane)
      if (!is_finished(state, lane))
        return fail("lane " + std::to_string(lane) + " stops after " +
                    std::to_string(state.done[static_cast<size_t>(lane)]) + " steps");
    for (const auto& queue : state.queues)
      if (!queue.empty()) return fail("a message is left over");
    for (const auto& memory : state.memory) check_memory(memory);
  }

  void check_memory(const std::vector<int>& memory) {
    std::map<int, std::string> output_of_origin;
    const auto text = [&](int rank, Buffer buffer, int chunk) {
      return pool_.texts[static_cast<size_t>(
          memory[static_cast<size_t>(place_of({rank, buffer, chunk, 1}))])];
    };
    for (int rank = 0; rank < program_.rank_count(); ++rank) {
      for (int chunk = 0; chunk < buffer_chunk_count(program_, rank, Buffer::Output); ++chunk) {
        const std::string found = text(rank, Buffer::Output, chunk);
        const int origin = origin_of(rank, Buffer::Output, chunk);
        if (!is_wanted(found, origin) ||
            found != output_of_origin.try_emplace(origin, found).first->second)
          return fail("rank " + std::to_string(rank) + " ends with " + found + " in output[" +
                      std::to_string(chunk) + "]");
      }
      if (!holds_input(program_, rank)) continue;
      for (int chunk = 0; chunk < buffer_chunk_count(program_, rank, Buffer::Input); ++chunk) {
        if (in_place_ && input_alias(program_, rank, chunk) >= 0) continue;
        const int leaf = pool_.leaf(rank, origin_of(rank, Buffer::Input, chunk));
        if (text(rank, Buffer::Input, chunk) != pool_.texts[static_cast<size_t>(leaf)])
          return fail("rank " + std::to_string(rank) + "'s input is overwritten");
      }
    }
  }

  // Every wanted leaf once and no other.
  bool is_wanted(const std::string& text, int origin) {
    std::vector<std::string> wanted;
    const auto want = [&](int rank) {
      wanted.push_back(pool_.texts[static_cast<size_t>(pool_.leaf(rank, origin))]);
    };
    if (is_reducing(program_.collective))
      for (int rank = 0; rank < program_.rank_count(); ++rank) want(rank);
    else
      want(source_rank(program_, origin / program_.chunk_count));
    const auto leaves = std::count(text.begin(), text.end(), '<');
    return text.find('?') == std::string::npos &&
           leaves == static_cast<std::ptrdiff_t>(wanted.size()) &&
           std::all_of(wanted.begin(), wanted.end(), [&](const std::string& leaf) {
             return text.find(leaf) != std::string::npos;
           });
  }

  const Program& program_;
  bool in_place_;
  std::map<std::tuple<int, Buffer>, int> first_place_;
  int place_count_ = 0;
  std::map<std::tuple<int, int, int>, int> streams_;
  std::vector<FlatLane> lanes_;
  ValuePool pool_;
  State initial_;
  Prng prng_{1};
  Exploration result_;
};

}  // namespace

Exploration explore_schedules(const Program& program, const Proof& proof, bool in_place,
                              int64_t state_limit, int sample_count) {
  return Explorer(program, proof, in_place).run(state_limit, sample_count);
}

}  // namespace mccl
