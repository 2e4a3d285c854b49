// What the interpreter costs: a ring all-reduce of float32 through the library against the same
// ring written by hand over the same streams (bench/hand_rank.cc): same slices, credits, kernels,
// wires and polling loop. Target: at most 5 % slower at 1 MiB and above.
//
//   interpreter_bench                            the comparison, in memory (CPU time, one thread)
//   and
//                                                over TCP on loopback (wall time, a process per
//                                                rank)
//   interpreter_bench count SIDE RANKS REPEATS   all-reduces of 1 MiB in one thread; SIDE is engine
//   or
//                                                hand. Only run_counted() is to be counted, for
//                                                example by callgrind; scripts/bench.sh does that.
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "memory_wire.h"
#include "ring_rank.h"
#include "side_process.h"
#include "transport/tcp_wire.h"

namespace mccl {

using MakeRank = std::unique_ptr<RingRank> (*)(WireContext&, const Clock&, Store&, int, int);

// All ranks in one thread over memory.
class RingGroup {
 public:
  RingGroup(MakeRank make, int rank_count, int64_t bytes)
      : count_(bytes / static_cast<int64_t>(sizeof(float))) {
    for (int rank = 0; rank < rank_count; ++rank) {
      contexts_.push_back(network_.make_context());
      data_.emplace_back(static_cast<size_t>(count_));
      ranks_.push_back(make(*contexts_.back(), clock_, *store_, rank, rank_count));
    }
    for (const std::unique_ptr<RingRank>& rank : ranks_) rank->meet();
  }
  ~RingGroup() { ranks_.clear(); }
  RingGroup(const RingGroup&) = delete;
  RingGroup& operator=(const RingGroup&) = delete;

  void fill() {
    for (std::vector<float>& data : data_) std::fill(data.begin(), data.end(), 1.0F);
  }
  void check() const {
    const auto sum = static_cast<float>(ranks_.size());
    for (const std::vector<float>& data : data_)
      MCCL_CHECK(std::all_of(data.begin(), data.end(), [&](float value) { return value == sum; }));
  }
  void run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      ranks_[rank]->begin(data_[rank].data(), count_);
    for (bool is_done = false; !is_done;) {
      is_done = true;
      for (const std::unique_ptr<RingRank>& rank : ranks_) {
        rank->step();
        is_done &= rank->is_done();
      }
    }
  }

 private:
  int64_t count_;
  SystemClock clock_;
  std::shared_ptr<Store> store_ = make_memory_store();
  MemoryNetwork network_{size_t{1} << 20};
  std::vector<std::unique_ptr<WireContext>> contexts_;
  std::vector<std::vector<float>> data_;
  std::vector<std::unique_ptr<RingRank>> ranks_;
};

// Has a name that a profiler can be told.
__attribute__((noinline)) void run_counted(RingGroup& group, int repeats) {
  for (int repeat = 0; repeat < repeats; ++repeat) group.run();
}

namespace {

// Keys as files of a directory, for ranks that are processes.
class FileStore final : public Store {
 public:
  explicit FileStore(std::filesystem::path directory) : directory_(std::move(directory)) {}

  Status set(const std::string& key, const std::string& value) override {
    const std::filesystem::path draft = path_of(key).string() + ".new";
    std::ofstream(draft) << value;
    std::filesystem::rename(draft, path_of(key));
    return Status::ok();
  }
  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override {
    const SystemClock clock;
    const TimeNs deadline = clock.now() + timeout_ns;
    for (;;) {
      std::ifstream file(path_of(key));
      if (file)
        return std::optional<std::string>(
            std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
      if (clock.now() >= deadline) return std::optional<std::string>();
      ::sched_yield();
    }
  }

 private:
  std::filesystem::path path_of(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '.');
    return directory_ / key;
  }
  std::filesystem::path directory_;
};

int repeats_of(int64_t bytes) {
  return static_cast<int>(std::max<int64_t>(4, (int64_t{96} << 20) / bytes));
}

double seconds_between(TimeNs begin, TimeNs end) {
  return static_cast<double>(end - begin) / static_cast<double>(kNsPerSecond);
}

// Of this thread: what other processes take from it does not count.
TimeNs cpu_now() {
  timespec time{};
  MCCL_CHECK_EQ(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

// Median CPU time of one all-reduce, all ranks in this thread.
double time_in_memory(MakeRank make, int rank_count, int64_t bytes) {
  RingGroup group(make, rank_count, bytes);
  std::vector<double> seconds;
  for (int repeat = 0; repeat <= repeats_of(bytes); ++repeat) {
    group.fill();
    const TimeNs begin = cpu_now();
    group.run();
    const TimeNs end = cpu_now();
    group.check();
    if (repeat > 0) seconds.push_back(seconds_between(begin, end));
  }
  return median(seconds);
}

double time_tcp_rank(MakeRank make, Store& store, int rank, int rank_count, int64_t bytes) {
  Result<std::unique_ptr<WireContext>> context = make_tcp_context({});
  MCCL_CHECK_EQ(context.status().to_string(), "ok");
  const SystemClock clock;
  const std::unique_ptr<RingRank> self = make(*context.value(), clock, store, rank, rank_count);
  self->meet();
  std::vector<float> data(static_cast<size_t>(bytes) / sizeof(float));
  std::vector<double> seconds;
  float barrier[2] = {};
  const auto drive = [&](float* values, int64_t count) {
    self->begin(values, count);
    while (!self->is_done()) {
      self->step();
      if (!self->is_done()) ::sched_yield();
    }
  };
  for (int repeat = 0; repeat <= repeats_of(bytes); ++repeat) {
    std::fill(data.begin(), data.end(), 1.0F);
    drive(barrier, 2);
    const TimeNs begin = clock.now();
    drive(data.data(), static_cast<int64_t>(data.size()));
    const TimeNs end = clock.now();
    MCCL_CHECK(data.front() == static_cast<float>(rank_count) && data.back() == data.front());
    if (repeat > 0) seconds.push_back(seconds_between(begin, end));
  }
  // A process that ends with bytes unread resets the connection under what the other has yet to
  // read.
  const auto key_of = [](int of_rank) { return "done/" + std::to_string(of_rank); };
  MCCL_CHECK(store.set(key_of(rank), "").is_ok());
  for (int other = 0; other < rank_count; ++other)
    while (!store.get(key_of(other), 0).value().has_value()) self->step();
  return median(seconds);
}

// Two processes; the slower one counts.
double time_over_tcp(MakeRank make, int64_t bytes) {
  char directory[] = "/tmp/interpreter_bench.XXXXXX";
  MCCL_CHECK(::mkdtemp(directory) != nullptr);
  FileStore store(directory);
  int ends[2];
  MCCL_CHECK_EQ(::pipe(ends), 0);
  const pid_t process = ::fork();
  MCCL_CHECK(process >= 0);
  if (process == 0) {
    const double other = time_tcp_rank(make, store, 1, 2, bytes);
    ::_exit(::write(ends[1], &other, sizeof other) == sizeof other ? 0 : 1);
  }
  const double own = time_tcp_rank(make, store, 0, 2, bytes);
  double other = 0;
  MCCL_CHECK(::read(ends[0], &other, sizeof other) == sizeof other);
  int state = 0;
  MCCL_CHECK_EQ(::waitpid(process, &state, 0), process);
  std::filesystem::remove_all(directory);
  return std::max(own, other);
}

void print(const char* wire, int rank_count, int64_t bytes, const Ratio& ratio) {
  std::printf(
      "%-8s %d ranks %3ld MiB  engine %9.1f us  by hand %9.1f us  ratio %.3f (%.3f to %.3f)"
      "  target 1.050: %s\n",
      wire, rank_count, static_cast<long>(bytes >> 20), ratio.a * 1e6, ratio.b * 1e6, ratio.median,
      ratio.min, ratio.max, ratio.median <= 1.05 ? "met" : "missed");
}

int compare(int rounds) {
  for (const int64_t mebibytes : {1, 16, 64}) {
    const int64_t bytes = mebibytes << 20;
    for (const int rank_count : {2, 4})
      print("memory", rank_count, bytes,
            compare_sides(
                rounds, [&] { return time_in_memory(&make_engine_rank, rank_count, bytes); },
                [&] { return time_in_memory(&make_hand_rank, rank_count, bytes); }));
    print("tcp", 2, bytes,
          compare_sides(
              rounds, [&] { return time_over_tcp(&make_engine_rank, bytes); },
              [&] { return time_over_tcp(&make_hand_rank, bytes); }));
  }
  return 0;
}

int count(const std::string& side, int rank_count, int repeats) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  RingGroup group(side == "engine" ? &make_engine_rank : &make_hand_rank, rank_count, kBytes);
  group.fill();
  for (int repeat = 0; repeat < 8; ++repeat) group.run();  // streams, buffers and caches exist
  group.fill();
  run_counted(group, repeats);
  const RingCut cut = cut_ring(kBytes / static_cast<int64_t>(sizeof(float)), rank_count);
  const int64_t messages =
      repeats * rank_count * 2 * (rank_count - 1) * cut.iterations * cut.instances;
  std::printf("messages %ld\n", static_cast<long>(messages));
  return 0;
}

}  // namespace
}  // namespace mccl

int main(int argument_count, char** arguments) {
  if (argument_count == 5 && std::strcmp(arguments[1], "count") == 0)
    return mccl::count(arguments[2], std::atoi(arguments[3]), std::atoi(arguments[4]));
  return mccl::compare(argument_count > 1 ? std::atoi(arguments[1]) : 7);
}
