// Steps take no virtual time, so a slice is the wait before its step. Messages of a stream match by
// position (law L2): the k-th send and the k-th receive of one operation, pair, channel and
// instance are the two ends of an arrow. Format: Trace Event Format, events M, X, b, e, s and f.
#include "simulate/step_trace.h"

#include <fmt/format.h>

#include <array>
#include <ostream>

#include "ir/opcode.h"
#include "runtime/rank_code.h"

namespace mccl {
namespace {

constexpr std::array<std::string_view, 6> kWaitNames = {
    "wait: another lane", "wait: turn to receive", "wait: message",
    "wait: turn to send", "wait: credit",          "wait: bytes to leave"};

// Arrows are tied to the slice around them, which does not contain its own end.
constexpr double kInsideUs = 0.001;

}  // namespace

class StepTrace::RankObserver final : public StepObserver {
 public:
  RankObserver(StepTrace& trace, int rank) : trace_(trace), rank_(rank) {}

  void on_wait(const StepPlace& place, StepWait wait) override {
    if (trace_.clock_ == nullptr) return;
    Row& row = row_of(place);
    if (!row.waits.empty() && row.waits.back().reason == wait) return;
    row.waits.push_back({wait, trace_.now_us()});
  }

  void on_step(const StepPlace& place) override {
    if (trace_.clock_ == nullptr) return;
    Row& row = row_of(place);
    const StepCode& step = place.code->steps[static_cast<size_t>(place.step)];
    const double now_us = trace_.now_us();
    const double begin_us = row.waits.empty() ? now_us : row.waits.front().begin_us;
    trace_.write(slice(row, opcode_row(step.opcode).spelling, begin_us, now_us,
                       fmt::format(R"(,"args":{{"slice":{},"step":{},"bytes":{}}})",
                                   place.iteration, place.step, place.message_bytes)));
    for (size_t index = 0; index < row.waits.size(); ++index) {
      const bool is_last = index + 1 == row.waits.size();
      trace_.write(slice(row, kWaitNames[static_cast<size_t>(row.waits[index].reason)],
                         row.waits[index].begin_us,
                         is_last ? now_us : row.waits[index + 1].begin_us, ""));
    }
    const double inside_us = now_us > begin_us ? now_us - kInsideUs : now_us;
    if (step.receives)
      trace_.write(
          arrow(row, "f", inside_us, place.code->recv_peer, rank_, place, row.received_count++));
    if (step.sends)
      trace_.write(
          arrow(row, "s", inside_us, rank_, place.code->send_peer, place, row.sent_count++));
    row.waits.clear();
  }

 private:
  struct Wait {
    StepWait reason;
    double begin_us;
  };
  struct Row {
    int number = 0;
    std::vector<Wait> waits;  // before the step to come
    uint64_t sent_count = 0;
    uint64_t received_count = 0;
  };

  Row& row_of(const StepPlace& place) {
    const auto [found, is_new] = rows_.try_emplace({place.sequence, place.lane, place.instance});
    Row& row = found->second;
    if (!is_new) return row;
    row.number = static_cast<int>(rows_.size());
    std::string name = fmt::format("operation {} lane {}", place.sequence, place.lane);
    if (place.instance > 0) name += fmt::format(".{}", place.instance);
    if (place.code->recv_peer >= 0) name += fmt::format(" from {}", place.code->recv_peer);
    if (place.code->send_peer >= 0) name += fmt::format(" to {}", place.code->send_peer);
    trace_.write(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},)"
                             R"("args":{{"name":"{}"}}}})",
                             rank_, row.number, name));
    return row;
  }

  std::string slice(const Row& row, std::string_view name, double begin_us, double end_us,
                    const std::string& more) const {
    return fmt::format(R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})",
                       name, rank_, row.number, begin_us, end_us - begin_us, more);
  }

  std::string arrow(const Row& row, std::string_view kind, double at_us, int from, int to,
                    const StepPlace& place, uint64_t position) const {
    return fmt::format(R"({{"ph":"{}","cat":"message","name":"message","id":"{}.{}.{}.{}.{}.{}",)"
                       R"("pid":{},"tid":{},"ts":{:.3f}{}}})",
                       kind, place.sequence, from, to, place.code->channel, place.instance,
                       position, rank_, row.number, at_us, kind == "f" ? R"(,"bp":"e")" : "");
  }

  StepTrace& trace_;
  int rank_;
  std::map<std::tuple<uint64_t, int, int>, Row> rows_;  // by operation, lane and instance
};

StepTrace::StepTrace(std::ostream& out, int rank_count) : out_(out) {
  out_ << R"({"displayTimeUnit":"ns","traceEvents":[)";
  for (int rank = 0; rank < rank_count; ++rank) {
    observers_.push_back(std::make_unique<RankObserver>(*this, rank));
    write(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})",
                      rank, rank));
  }
}

StepTrace::~StepTrace() = default;

StepObserver* StepTrace::observer(int rank) {
  return observers_[static_cast<size_t>(rank)].get();
}

void StepTrace::begin(const Clock& clock) {
  clock_ = &clock;
  begin_ns_ = clock.now();
}

void StepTrace::note_call(int rank, uint64_t sequence, std::string_view name) {
  write(fmt::format(R"({{"ph":"b","cat":"operation","id":"{}.{}","name":"{} {}","pid":{},"tid":0,)"
                    R"("ts":{:.3f}}})",
                    rank, sequence, name, sequence, rank, now_us()));
}

void StepTrace::note_completion(int rank, uint64_t sequence, std::string_view name) {
  write(fmt::format(R"({{"ph":"e","cat":"operation","id":"{}.{}","name":"{} {}","pid":{},"tid":0,)"
                    R"("ts":{:.3f}}})",
                    rank, sequence, name, sequence, rank, now_us()));
}

void StepTrace::end() {
  clock_ = nullptr;
  out_ << "\n]}\n";
}

void StepTrace::write(const std::string& event) {
  out_ << (event_count_++ == 0 ? "\n" : ",\n") << event;
}

double StepTrace::now_us() const {
  return static_cast<double>(clock_->now() - begin_ns_) / 1e3;
}

}  // namespace mccl
