// Contenders are settings, which belong to an endpoint: each has its own, and a communicator of its
// own on it, which makes nothing but the calls that are measured. So its counters are of those
// alone. What ranks tell each other goes over one more communicator.

#include "perf/perf_rank.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/dtype.h"
#include "ir/collective.h"
#include "mccl/communicator.h"
#include "perf/perf_call.h"
#include "verb/verb.h"

namespace mccl {
namespace {

constexpr size_t kAlignment = 4096;
constexpr size_t kNameBytes = 64;

struct FreeMemory {
  void operator()(std::byte* data) const { std::free(data); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;

Result<Memory> allocate(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (memory == nullptr)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("{} bytes of memory are not there: take a smaller -e", rounded));
  // Pages that nobody has touched are one page of zeros, which is faster than memory.
  std::memset(memory.get(), 0, rounded);
  return memory;
}

// Of all threads of this process.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What a rank tells the others about itself; as bytes.
struct RankCard {
  int64_t pid = 0;
  std::array<char, kNameBytes> host = {};
  std::array<char, kNameBytes> processor = {};
};

std::string processor_name() {
  constexpr std::string_view kKey = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(kKey) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

RankCard own_card() {
  RankCard card{.pid = getpid()};
  gethostname(card.host.data(), card.host.size() - 1);
  const std::string processor = processor_name();
  std::copy_n(processor.begin(), std::min(processor.size(), card.processor.size() - 1),
              card.processor.begin());
  return card;
}

Status wait_for(const Result<std::shared_ptr<Work>>& work) {
  return work.is_ok() ? work.value()->wait() : work.status();
}

class Contender {
 public:
  static Result<Contender> create(const std::string& algo, const PerfOptions& options,
                                  const PerfPlace& place, Store& store, const std::string& name) {
    EndpointOptions endpoint_options{.settings = place.settings,
                                     .master_address = place.master_address};
    auto& settings = endpoint_options.settings;
    const auto set = [&](const std::string& setting, const std::string& value) {
      std::erase_if(settings, [&](const auto& entry) { return entry.first == setting; });
      settings.emplace_back(setting, value);
    };
    if (!algo.empty()) set("MCCL_ALGO", algo);
    if (options.timeout_s > 0) set("MCCL_TIMEOUT", fmt::format("{}", options.timeout_s));
    Contender contender;
    Result<std::unique_ptr<Endpoint>> endpoint = Endpoint::create(endpoint_options);
    if (!endpoint.is_ok()) return endpoint.status();
    contender.endpoint_ = std::move(endpoint).value();
    Result<std::unique_ptr<Communicator>> communicator =
        contender.make_communicator(place, store, name);
    if (!communicator.is_ok()) return communicator.status();
    contender.communicator_ = std::move(communicator).value();
    return contender;
  }

  Result<std::unique_ptr<Communicator>> make_communicator(const PerfPlace& place, Store& store,
                                                          const std::string& name) {
    return Communicator::create(*endpoint_, store, place.rank, place.rank_count,
                                {.name = name, .interrupted = place.interrupted});
  }
  Communicator& communicator() { return *communicator_; }

 private:
  Contender() = default;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Communicator> communicator_;
};

// What a contender has done since `before`.
std::vector<ServedProgram> served_since(const CommunicatorStats& before,
                                        const CommunicatorStats& after) {
  std::vector<ServedProgram> served;
  for (size_t index = 0; index < after.programs.size(); ++index) {
    const ProgramCount& count = after.programs[index];
    // Programs stay in the order of first use.
    const uint64_t earlier =
        index < before.programs.size() ? before.programs[index].calls : uint64_t{0};
    if (count.calls > earlier)
      served.push_back(
          {.program = count.program, .calls = count.calls - earlier, .reason = count.reason});
  }
  return served;
}

class PerfRank {
 public:
  PerfRank(const PerfOptions& options, const PerfPlace& place, const PerfListener& listener)
      : options_(options), place_(place), listener_(listener) {}

  Status meet(Store& store) {
    for (size_t index = 0; index < options_.algos.size(); ++index) {
      Result<Contender> contender = Contender::create(options_.algos[index], options_, place_,
                                                      store, fmt::format("perf {}", index));
      if (!contender.is_ok()) return contender.status();
      contenders_.push_back(std::move(contender).value());
    }
    Result<std::unique_ptr<Communicator>> control =
        contenders_.front().make_communicator(place_, store, "perf control");
    if (!control.is_ok()) return control.status();
    control_ = std::move(control).value();
    return exchange_cards();
  }

  Status allocate_buffers() {
    int64_t input_bytes = 0;
    int64_t output_bytes = 0;
    for (const DataType dtype : options_.dtypes) {
      const CallLayout layout =
          layout_of(options_.collective, options_.sizes.back(), place_.rank_count, dtype);
      const auto width = static_cast<int64_t>(dtype_bytes(dtype));
      input_bytes = std::max(input_bytes, layout.input_count * width);
      output_bytes = std::max(output_bytes, layout.output_count * width);
    }
    Result<Memory> input = allocate(input_bytes);
    if (!input.is_ok()) return input.status();
    Result<Memory> output = allocate(output_bytes);
    if (!output.is_ok()) return output.status();
    input_ = std::move(input).value();
    output_ = std::move(output).value();
    return Status::ok();
  }

  Status run_cycle(const std::vector<int64_t>& sizes) {
    for (const DataType dtype : options_.dtypes)
      for (const ReduceOp op : options_.ops) {
        if (is_reducing(options_.collective) && !is_reduction_defined(dtype, op)) continue;
        for (const int64_t bytes : sizes) MCCL_RETURN_IF_ERROR(run_size(dtype, op, bytes));
      }
    return Status::ok();
  }

  PerfOutcome& outcome() { return outcome_; }

 private:
  Status exchange_cards() {
    const RankCard own = own_card();
    std::vector<RankCard> cards(static_cast<size_t>(place_.rank_count));
    std::vector<OutputBlock> blocks;
    for (RankCard& card : cards)
      blocks.push_back({.data = &card, .count = static_cast<int64_t>(sizeof card)});
    MCCL_RETURN_IF_ERROR(wait_for(control_->all_gather(&own, std::move(blocks), DataType::UInt8)));
    for (RankCard& card : cards) {
      card.host.back() = card.processor.back() = '\0';
      outcome_.ranks.push_back({.rank = static_cast<int>(outcome_.ranks.size()),
                                .pid = card.pid,
                                .host = card.host.data(),
                                .processor = card.processor.data()});
    }
    if (listener_.begin) listener_.begin(outcome_.ranks);
    return Status::ok();
  }

  Status run_size(DataType dtype, ReduceOp op, int64_t bytes) {
    CallShape shape{.collective = options_.collective,
                    .dtype = dtype,
                    .op = op,
                    .root = options_.root,
                    .rank = place_.rank,
                    .rank_count = place_.rank_count,
                    .is_in_place = false,
                    .layout = layout_of(options_.collective, bytes, place_.rank_count, dtype)};
    std::vector<PerfFigures> apart;
    std::vector<PerfFigures> together;
    const bool is_in_place = can_be_in_place(options_.collective);
    if (!is_in_place || !options_.is_in_place_only) MCCL_RETURN_IF_ERROR(measure(shape, apart));
    shape.is_in_place = is_in_place;
    if (is_in_place) MCCL_RETURN_IF_ERROR(measure(shape, together));
    for (size_t index = 0; index < contenders_.size(); ++index) {
      PerfLine line{.bytes = shape.layout.bytes,
                    .count = shape.layout.count,
                    .dtype = dtype,
                    .root = is_rooted(options_.collective) ? options_.root : -1,
                    .algo = options_.algos[index],
                    .calls = int64_t{options_.iteration_count} * options_.aggregate_count};
      if (is_reducing(options_.collective)) line.op = op;
      if (!apart.empty()) line.out_of_place = std::move(apart[index]);
      if (!together.empty()) line.in_place = std::move(together[index]);
      if (listener_.add_line) listener_.add_line(line);
      if (options_.cycle_count != 0) outcome_.lines.push_back(std::move(line));
    }
    return Status::ok();
  }

  // All iterations of one size, one column group; by contender.
  Status measure(const CallShape& shape, std::vector<PerfFigures>& figures) {
    PerfCall call(shape, input_.get(), output_.get());
    figures.resize(contenders_.size());
    for (int round = 0; round < options_.warmup_count; ++round)
      for (Contender& contender : contenders_)
        MCCL_RETURN_IF_ERROR(wait_for(call.post(contender.communicator(), {.will_wait = true})));
    std::vector<CommunicatorStats> before;
    for (Contender& contender : contenders_) before.push_back(contender.communicator().stats());
    for (int round = 0; round < options_.iteration_count; ++round)
      for (size_t turn = 0; turn < contenders_.size(); ++turn) {
        // A B, B A, A B: what drifts with time falls on both.
        const size_t index = round % 2 == 0 ? turn : contenders_.size() - 1 - turn;
        MCCL_RETURN_IF_ERROR(measure_once(call, contenders_[index], figures[index]));
      }
    for (size_t index = 0; index < contenders_.size(); ++index) {
      figures[index].programs =
          served_since(before[index], contenders_[index].communicator().stats());
      MCCL_RETURN_IF_ERROR(combine(figures[index]));
    }
    return Status::ok();
  }

  Status measure_once(PerfCall& call, Contender& contender, PerfFigures& figures) {
    call.prepare(++iteration_);
    MCCL_RETURN_IF_ERROR(wait_for(control_->barrier({.will_wait = true})));
    const double cpu_before = cpu_seconds();
    const TimeNs begin_ns = clock_.now();
    MCCL_RETURN_IF_ERROR(make_calls(call, contender));
    const TimeNs end_ns = clock_.now();
    figures.cpu_seconds += cpu_seconds() - cpu_before;
    figures.iteration_us.push_back(static_cast<double>(end_ns - begin_ns) / 1e3 /
                                   options_.aggregate_count);
    if (!options_.is_checked) return Status::ok();
    if (options_.aggregate_count > 1) {
      // Of several calls on the same memory the result is that of none.
      call.prepare(++iteration_);
      MCCL_RETURN_IF_ERROR(wait_for(call.post(contender.communicator(), {.will_wait = true})));
    }
    figures.wrong = std::max<int64_t>(0, figures.wrong) + call.count_wrong_elements();
    return Status::ok();
  }

  Status make_calls(PerfCall& call, Contender& contender) {
    if (options_.aggregate_count == 1)
      return wait_for(call.post(contender.communicator(), {.will_wait = true}));
    std::vector<std::shared_ptr<Work>> works;
    for (int index = 0; index < options_.aggregate_count; ++index) {
      Result<std::shared_ptr<Work>> work = call.post(contender.communicator(), {});
      if (!work.is_ok()) return work.status();
      works.push_back(std::move(work).value());
    }
    for (const std::shared_ptr<Work>& work : works) MCCL_RETURN_IF_ERROR(work->wait());
    return Status::ok();
  }

  // This rank's figures become those of all.
  Status combine(PerfFigures& figures) {
    auto& times = figures.iteration_us;
    const auto count = static_cast<int64_t>(times.size());
    if (options_.average == RankAverage::RankZero) {
      MCCL_RETURN_IF_ERROR(
          wait_for(control_->broadcast(times.data(), count, DataType::Float64, 0)));
    } else {
      ReduceOp op = ReduceOp::Avg;
      if (options_.average == RankAverage::Min) op = ReduceOp::Min;
      if (options_.average == RankAverage::Max) op = ReduceOp::Max;
      MCCL_RETURN_IF_ERROR(
          wait_for(control_->all_reduce(times.data(), times.data(), count, DataType::Float64, op)));
    }
    MCCL_RETURN_IF_ERROR(wait_for(control_->all_reduce(&figures.cpu_seconds, &figures.cpu_seconds,
                                                       1, DataType::Float64, ReduceOp::Sum)));
    if (!options_.is_checked) return Status::ok();
    return wait_for(
        control_->all_reduce(&figures.wrong, &figures.wrong, 1, DataType::Int64, ReduceOp::Sum));
  }

  const PerfOptions& options_;
  const PerfPlace& place_;
  const PerfListener& listener_;
  SystemClock clock_;
  Memory input_;  // outlives the communicators, which may still write
  Memory output_;
  std::vector<Contender> contenders_;
  std::unique_ptr<Communicator> control_;  // after the endpoint that it is of
  int64_t iteration_ = 0;
  PerfOutcome outcome_;
};

}  // namespace

Result<PerfOutcome> run_perf_rank(const PerfOptions& options, const PerfPlace& place, Store& store,
                                  const PerfListener& listener) {
  if (options.root >= place.rank_count)
    return wrong_usage(
        fmt::format("-r {}: there are ranks 0 to {}", options.root, place.rank_count - 1));
  PerfRank rank(options, place, listener);
  MCCL_RETURN_IF_ERROR(rank.allocate_buffers());
  MCCL_RETURN_IF_ERROR(rank.meet(store));
  for (int64_t cycle = 0; options.cycle_count == 0 || cycle < options.cycle_count; ++cycle)
    MCCL_RETURN_IF_ERROR(rank.run_cycle(options.sizes));
  while (listener.choose_sizes) {
    const std::vector<int64_t> sizes = listener.choose_sizes(rank.outcome().lines);
    if (sizes.empty()) break;
    MCCL_RETURN_IF_ERROR(rank.run_cycle(sizes));
  }
  return std::move(rank.outcome());
}

}  // namespace mccl
