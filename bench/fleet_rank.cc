// One rank of a fleet, for measurements between hosts (scripts/fleet.sh): all-reduces buffers of
// the sizes asked for, checks every element of every result, and rank 0 prints what all ranks
// found as one JSON object.
//
//   fleet_rank --rank 1 --ranks 2 --master 192.168.1.7:29500 --bytes 64M,256M --rounds 8
//
// A round makes one batch of calls of each size, one call after the other; a call's time is the
// mean of its batch on the slowest rank. Inputs differ in every call, and a result that lacks a
// rank's share, or has another rank's or call's, differs from the expected one. Processor time is
// that of the batches alone, both threads, without filling and checking.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mccl/communicator.h"
#include "mccl/rendezvous.h"

namespace {

using Json = nlohmann::ordered_json;
using mccl::Communicator;
using mccl::DataType;
using mccl::ReduceOp;
using mccl::Status;

constexpr int64_t kRendezvousNs = 60'000'000'000;
constexpr int kExitWrong = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNetwork = 3;
// So many ranks have sums below 2^24, the whole numbers of a float.
constexpr int kRankCountMax = 200;

struct Arguments {
  int rank = 0;
  int rank_count = 0;
  std::string host;
  int port = 0;
  std::vector<uint64_t> sizes_bytes;
  int round_count = 8;
  double seconds = 0;  // positive: rounds until so many have passed
  int batch_count_max = 32;
  uint64_t batch_bytes_max = 4 << 20;
  bool plants_error = false;
};

// What is measured of one size. Times are of a call, one for each batch.
struct Size {
  uint64_t bytes = 0;
  int batch_count = 1;
  std::vector<double> seconds = {};
  double cpu_seconds = 0;
  double sent_bytes = 0;
  int64_t wrong_count = 0;
  int64_t checked_count = 0;
  std::string program = {};
};

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Rank r contributes x + r*y with x below 2^13 and y from 1 to 2^9, both from a hash of the element
// and the call: whole numbers, so that sums are exact in any order.
struct Pattern {
  uint32_t offset;

  explicit Pattern(uint64_t call) : offset(static_cast<uint32_t>(call * 0x9e3779b9ULL)) {}
  uint32_t x(uint32_t hash) const { return hash >> 19; }
  uint32_t y(uint32_t hash) const { return 1 + ((hash >> 10) & 511); }
  uint32_t hash(uint32_t index) const { return (index + offset) * 0x85ebca6bU; }
};

void fill(float* data, uint32_t count, uint64_t call, uint32_t rank) {
  const Pattern pattern(call);
  for (uint32_t index = 0; index < count; ++index) {
    const uint32_t hash = pattern.hash(index);
    const uint32_t value = pattern.x(hash) + rank * pattern.y(hash);
    data[index] = static_cast<float>(static_cast<int32_t>(value));
  }
}

// The number of elements that differ from the sum over `rank_count` ranks.
int64_t count_wrong(const float* data, uint32_t count, uint64_t call, uint32_t rank_count) {
  const Pattern pattern(call);
  const uint32_t rank_sum = rank_count * (rank_count - 1) / 2;
  uint32_t wrong_count = 0;
  for (uint32_t index = 0; index < count; ++index) {
    const uint32_t hash = pattern.hash(index);
    const uint32_t expected = rank_count * pattern.x(hash) + rank_sum * pattern.y(hash);
    wrong_count += data[index] != static_cast<float>(static_cast<int32_t>(expected)) ? 1U : 0U;
  }
  return wrong_count;
}

// The program that has served more calls in `after` than in `before`.
std::string program_since(const mccl::CommunicatorStats& before,
                          const mccl::CommunicatorStats& after) {
  for (size_t row = 0; row < after.programs.size(); ++row) {
    const uint64_t old_calls = row < before.programs.size() ? before.programs[row].calls : 0;
    if (after.programs[row].calls > old_calls) return after.programs[row].program;
  }
  return "none";
}

class Fleet {
 public:
  Fleet(Communicator& group, const Arguments& arguments);

  // Rounds until the end; the first one warms up: it is checked, not timed.
  Status run();
  // Collective. What all ranks have found.
  Status report(Json* json, int64_t* wrong_count);

 private:
  Status run_round(bool is_timed);
  Status run_batch(Size& size, bool is_timed);
  Status all_reduce(void* data, int64_t count, DataType dtype, ReduceOp op) const;
  Status decide_end(double end_seconds, int rounds_done, bool* is_over) const;
  Status report_size(Size& size, Json* row, int64_t* wrong_count) const;

  Communicator& group_;
  const Arguments& arguments_;
  std::vector<Size> sizes_;
  std::vector<float> buffer_;
  uint64_t call_ = 0;
  double elapsed_seconds_ = 0;
};

Fleet::Fleet(Communicator& group, const Arguments& arguments)
    : group_(group), arguments_(arguments) {
  uint64_t bytes_max = 0;
  for (const uint64_t bytes : arguments.sizes_bytes) {
    const uint64_t fitting = arguments.batch_bytes_max / bytes;
    const uint64_t batch_max = static_cast<uint64_t>(arguments.batch_count_max);
    const uint64_t batch_count = std::clamp<uint64_t>(fitting, 1, batch_max);
    sizes_.push_back({.bytes = bytes, .batch_count = static_cast<int>(batch_count)});
    bytes_max = std::max(bytes_max, bytes * batch_count);
  }
  buffer_.resize(bytes_max / sizeof(float));
}

Status Fleet::all_reduce(void* data, int64_t count, DataType dtype, ReduceOp op) const {
  auto work = group_.all_reduce(data, data, count, dtype, op, {.will_wait = true});
  return work.is_ok() ? work.value()->wait() : work.status();
}

// Every rank has to make the same calls, so rank 0's clock decides.
Status Fleet::decide_end(double end_seconds, int rounds_done, bool* is_over) const {
  const bool is_past =
      arguments_.seconds > 0 ? now_seconds() >= end_seconds : rounds_done >= arguments_.round_count;
  int64_t votes = group_.rank() == 0 && is_past ? 1 : 0;
  const Status status = all_reduce(&votes, 1, DataType::Int64, ReduceOp::Sum);
  *is_over = votes > 0;
  return status;
}

Status Fleet::run() {
  Status status = run_round(false);
  const double start_seconds = now_seconds();
  for (int rounds_done = 0; status.is_ok(); ++rounds_done) {
    bool is_over = false;
    status = decide_end(start_seconds + arguments_.seconds, rounds_done, &is_over);
    if (status.is_ok() && is_over) break;
    if (status.is_ok()) status = run_round(true);
  }
  elapsed_seconds_ = now_seconds() - start_seconds;
  return status;
}

Status Fleet::run_round(bool is_timed) {
  for (Size& size : sizes_) {
    const Status status = run_batch(size, is_timed);
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

Status Fleet::run_batch(Size& size, bool is_timed) {
  const auto count = static_cast<uint32_t>(size.bytes / sizeof(float));
  for (int part = 0; part < size.batch_count; ++part)
    fill(buffer_.data() + size_t{count} * static_cast<size_t>(part), count,
         call_ + static_cast<uint64_t>(part), static_cast<uint32_t>(group_.rank()));
  auto barrier = group_.barrier({.will_wait = true});
  if (!barrier.is_ok()) return barrier.status();
  Status status = barrier.value()->wait();
  if (!status.is_ok()) return status;

  // Ranks leave a barrier up to a hop apart; after a call that is not timed they are in step.
  const int first_timed = size.batch_count > 1 ? 1 : 0;
  mccl::CommunicatorStats before;
  double start_cpu_seconds = 0;
  double start_seconds = 0;
  for (int part = 0; part < size.batch_count; ++part) {
    if (part == first_timed) {
      before = group_.stats();
      start_cpu_seconds = cpu_seconds();
      start_seconds = now_seconds();
    }
    status = all_reduce(buffer_.data() + size_t{count} * static_cast<size_t>(part), count,
                        DataType::Float32, ReduceOp::Sum);
    if (!status.is_ok()) return status;
  }
  const double end_seconds = now_seconds();
  if (is_timed) {
    size.seconds.push_back((end_seconds - start_seconds) / (size.batch_count - first_timed));
    size.cpu_seconds += cpu_seconds() - start_cpu_seconds;
    size.sent_bytes += static_cast<double>(group_.stats().bytes_sent - before.bytes_sent);
  }
  if (size.program.empty()) size.program = program_since(before, group_.stats());
  if (arguments_.plants_error && call_ == 0 && group_.rank() == 0) buffer_[0] += 1;
  for (int part = 0; part < size.batch_count; ++part, ++call_, ++size.checked_count)
    size.wrong_count += count_wrong(buffer_.data() + size_t{count} * static_cast<size_t>(part),
                                    count, call_, static_cast<uint32_t>(group_.rank_count()));
  return Status::ok();
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

Status Fleet::report_size(Size& size, Json* row, int64_t* wrong_count) const {
  // The slowest rank of each batch.
  Status status = all_reduce(size.seconds.data(), static_cast<int64_t>(size.seconds.size()),
                             DataType::Float64, ReduceOp::Max);
  if (status.is_ok()) status = all_reduce(&size.wrong_count, 1, DataType::Int64, ReduceOp::Sum);
  double sums[] = {size.cpu_seconds, size.sent_bytes};
  if (status.is_ok()) status = all_reduce(sums, 2, DataType::Float64, ReduceOp::Sum);
  double cpu_seconds_max = size.cpu_seconds;
  if (status.is_ok()) status = all_reduce(&cpu_seconds_max, 1, DataType::Float64, ReduceOp::Max);
  if (!status.is_ok()) return status;

  *wrong_count += size.wrong_count;
  const double rank_count = group_.rank_count();
  const double call_seconds = quantile(size.seconds, 0.5);
  const double bus_factor = 2.0 * (rank_count - 1) / rank_count;
  *row = {{"bytes", size.bytes},
          {"calls_per_batch", size.batch_count},
          {"batches", size.seconds.size()},
          {"checked_results_per_rank", size.checked_count},
          {"median_us", call_seconds * 1e6},
          {"min_us", quantile(size.seconds, 0) * 1e6},
          {"max_us", quantile(size.seconds, 1) * 1e6},
          {"busbw_bytes_per_second", bus_factor * static_cast<double>(size.bytes) / call_seconds},
          {"cpu_seconds_per_rank", sums[0] / rank_count},
          {"cpu_seconds_max", cpu_seconds_max},
          {"sent_bytes_per_rank", sums[1] / rank_count},
          {"wrong_elements", size.wrong_count},
          {"program", size.program}};
  return Status::ok();
}

Status Fleet::report(Json* json, int64_t* wrong_count) {
  *json = {{"ranks", group_.rank_count()},
           {"elapsed_seconds", elapsed_seconds_},
           {"start_up", group_.start_up_line()},
           {"sizes", Json::array()}};
  for (Size& size : sizes_) {
    Json row;
    const Status status = report_size(size, &row, wrong_count);
    if (!status.is_ok()) return status;
    (*json)["sizes"].push_back(std::move(row));
  }
  // Nobody leaves while others still need it.
  auto barrier = group_.barrier({.will_wait = true});
  return barrier.is_ok() ? barrier.value()->wait() : barrier.status();
}

int fail(int rank, const Status& status) {
  std::fprintf(stderr, "fleet_rank: rank %d: %s\n", rank, status.to_string().c_str());
  return kExitNetwork;
}

int run_rank(const Arguments& arguments) {
  auto store =
      mccl::make_tcp_store(arguments.host, arguments.port, arguments.rank == 0, kRendezvousNs);
  if (!store.is_ok()) return fail(arguments.rank, store.status());
  auto endpoint = mccl::Endpoint::create({.settings = {}, .master_address = arguments.host});
  if (!endpoint.is_ok()) return fail(arguments.rank, endpoint.status());
  mccl::CommunicatorOptions options;
  options.timeout_ns = kRendezvousNs;
  auto group = Communicator::create(*endpoint.value(), *store.value(), arguments.rank,
                                    arguments.rank_count, options);
  if (!group.is_ok()) return fail(arguments.rank, group.status());

  Fleet fleet(*group.value(), arguments);
  Status status = fleet.run();
  Json json;
  int64_t wrong_count = 0;
  if (status.is_ok()) status = fleet.report(&json, &wrong_count);
  if (!status.is_ok()) return fail(arguments.rank, status);
  if (arguments.rank == 0) std::printf("%s\n", json.dump().c_str());
  return wrong_count == 0 ? 0 : kExitWrong;
}

std::string check_arguments(Arguments& arguments, const std::string& master) {
  const size_t colon = master.rfind(':');
  if (colon == std::string::npos || colon == 0) return "--master is HOST:PORT";
  arguments.host = master.substr(0, colon);
  if (!CLI::detail::lexical_cast(master.substr(colon + 1), arguments.port))
    return "--master is HOST:PORT";
  if (arguments.rank >= arguments.rank_count) return "--rank is below --ranks";
  for (const uint64_t bytes : arguments.sizes_bytes)
    if (bytes == 0 || bytes % sizeof(float) != 0 || bytes > (uint64_t{1} << 32))
      return "--bytes takes multiples of 4, at most 4G";
  return {};
}

}  // namespace

int main(int argument_count, char** argument_words) {
  Arguments arguments;
  std::string master;
  CLI::App app{"One rank of a fleet: all-reduces, checks every result, rank 0 prints JSON."};
  app.add_option("--rank", arguments.rank)->required()->check(CLI::NonNegativeNumber);
  app.add_option("--ranks", arguments.rank_count)->required()->check(CLI::Range(1, kRankCountMax));
  app.add_option("--master", master, "HOST:PORT on rank 0's host")->required();
  app.add_option("--bytes", arguments.sizes_bytes, "sizes, such as 8,64K,256M")
      ->required()
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", arguments.round_count, "timed rounds")->check(CLI::PositiveNumber);
  app.add_option("--seconds", arguments.seconds, "rounds until so many have passed");
  app.add_option("--batch", arguments.batch_count_max, "calls of a size in a round, at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch-bytes", arguments.batch_bytes_max, "bytes of a batch, unless one call")
      ->transform(CLI::AsSizeValue(false));
  app.add_flag("--plant-error", arguments.plants_error, "spoil one element, to see it found");
  try {
    app.parse(argument_count, argument_words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const std::string fault = check_arguments(arguments, master);
  if (!fault.empty()) {
    std::fprintf(stderr, "fleet_rank: %s\n", fault.c_str());
    return kExitUsage;
  }
  return run_rank(arguments);
}
