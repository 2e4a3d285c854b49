#include "perf/perf_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/dtype.h"
#include "ir/collective.h"
#include "verb/verb.h"

namespace mccl {
namespace {

constexpr int64_t kBytesMax = int64_t{1} << 40;
constexpr size_t kSizesMax = 10'000;
constexpr int kRanksMax = 64;  // of one machine
constexpr int kCountMax = 1'000'000;
constexpr int kAggregateMax = 1'000;
constexpr size_t kAlgosMax = 8;

template <class T>
struct NamedRow {
  T value;
  std::string_view name;
};

// Where nccl-tests' name is not ours.
constexpr std::array kDtypes = {
    NamedRow<DataType>{DataType::Float32, "float"},
    NamedRow<DataType>{DataType::Float64, "double"},
    NamedRow<DataType>{DataType::Float16, "half"},
    NamedRow<DataType>{DataType::Float8E4M3FN, "f8e4m3"},
    NamedRow<DataType>{DataType::Float8E5M2, "f8e5m2"},
};
// In nccl-tests' order: "-d all".
constexpr std::array kAllDtypes = {
    DataType::Int8,    DataType::UInt8,    DataType::Int32,        DataType::UInt32,
    DataType::Int64,   DataType::UInt64,   DataType::Float16,      DataType::Float32,
    DataType::Float64, DataType::BFloat16, DataType::Float8E4M3FN, DataType::Float8E5M2};
// "-o all".
constexpr std::array kOps = {
    NamedRow<ReduceOp>{ReduceOp::Sum, "sum"}, NamedRow<ReduceOp>{ReduceOp::Product, "prod"},
    NamedRow<ReduceOp>{ReduceOp::Max, "max"}, NamedRow<ReduceOp>{ReduceOp::Min, "min"},
    NamedRow<ReduceOp>{ReduceOp::Avg, "avg"},
};
constexpr std::array kCollectives = {
    Collective::AllReduce, Collective::AllGather, Collective::Broadcast, Collective::ReduceScatter,
    Collective::Reduce,    Collective::Gather,    Collective::Scatter,   Collective::AllToAll};

std::optional<DataType> find_perf_dtype(std::string_view name) {
  for (const auto& row : kDtypes)
    if (row.name == name) return row.value;
  return find_dtype(name);
}

std::optional<ReduceOp> find_perf_op(std::string_view name) {
  for (const auto& row : kOps)
    if (row.name == name) return row.value;
  return std::nullopt;
}

Status read_dtypes(const PerfWords& words, PerfOptions& options) {
  if (words.dtype == "all") {
    options.dtypes.assign(kAllDtypes.begin(), kAllDtypes.end());
    return Status::ok();
  }
  const std::optional<DataType> dtype = find_perf_dtype(words.dtype);
  if (!dtype)
    return wrong_usage(
        fmt::format("-d {}: allowed are int8, uint8, int32, uint32, int64, uint64, "
                    "half, float, double, bfloat16, f8e4m3, f8e5m2, all and mccl's "
                    "own names",
                    words.dtype));
  // A bool knows two values, and a pattern of two values repeats within every block.
  if (*dtype == DataType::Bool) return wrong_usage("-d bool: use uint8, which is as long");
  options.dtypes = {*dtype};
  return Status::ok();
}

Status read_ops(const PerfWords& words, PerfOptions& options) {
  if (words.op == "mulsum")
    return wrong_usage("-o mulsum: mccl scales in torch's PREMUL_SUM only; use sum");
  if (words.op == "all") {
    for (const auto& row : kOps) options.ops.push_back(row.value);
  } else if (const std::optional<ReduceOp> op = find_perf_op(words.op)) {
    options.ops = {*op};
  } else {
    return wrong_usage(
        fmt::format("-o {}: allowed are sum, prod, max, min, avg and all", words.op));
  }
  if (!is_reducing(options.collective)) options.ops = {ReduceOp::Sum};
  return Status::ok();
}

// "-d all -o all" leaves out what has no meaning; a pair that was named is an error.
Status check_pairs(const PerfOptions& options) {
  if (!is_reducing(options.collective)) return Status::ok();
  if (options.dtypes.size() > 1 || options.ops.size() > 1) return Status::ok();
  if (is_reduction_defined(options.dtypes.front(), options.ops.front())) return Status::ok();
  return wrong_usage(fmt::format("-d {} -o {}: the type has no such reduction",
                                 perf_dtype_name(options.dtypes.front()),
                                 perf_op_name(options.ops.front())));
}

Status read_sizes(const PerfWords& words, PerfOptions& options) {
  const Result<int64_t> least = parse_perf_bytes("-b", words.min_bytes);
  if (!least.is_ok()) return least.status();
  const Result<int64_t> most = parse_perf_bytes("-e", words.max_bytes);
  if (!most.is_ok()) return most.status();
  const Result<int64_t> step = parse_perf_bytes("-i", words.step_bytes);
  if (!step.is_ok()) return step.status();
  if (least.value() > most.value())
    return wrong_usage(
        fmt::format("-b {} is more than -e {}: give both", words.min_bytes, words.max_bytes));
  if (words.step_factor != 0)
    MCCL_RETURN_IF_ERROR(check_range("-f", words.step_factor, 2, kCountMax));
  if (words.step_factor == 0 && step.value() == 0) return wrong_usage("-i 0: sizes need a step");
  options.step_factor = words.step_factor;
  options.step_bytes = words.step_factor == 0 ? step.value() : 0;
  for (int64_t bytes = least.value(); bytes <= most.value();) {
    if (options.sizes.size() == kSizesMax)
      return wrong_usage(
          fmt::format("more than {} sizes from -b {} to -e {}; take -f 2 or a larger "
                      "-i",
                      kSizesMax, words.min_bytes, words.max_bytes));
    options.sizes.push_back(bytes);
    // Nothing times a factor stays nothing.
    bytes = options.step_factor == 0 ? bytes + options.step_bytes
                                     : std::max<int64_t>(1, bytes * options.step_factor);
  }
  return Status::ok();
}

Status check_numbers(const PerfWords& words) {
  MCCL_RETURN_IF_ERROR(check_range("-n", words.iteration_count, 1, kCountMax));
  MCCL_RETURN_IF_ERROR(check_range("-m", words.aggregate_count, 1, kAggregateMax));
  MCCL_RETURN_IF_ERROR(check_range("-w", words.warmup_count, 0, kCountMax));
  MCCL_RETURN_IF_ERROR(check_range("-N", words.cycle_count, 0, kCountMax));
  MCCL_RETURN_IF_ERROR(check_range("-c", words.check_count, 0, kCountMax));
  MCCL_RETURN_IF_ERROR(check_range("-a", words.average, 0, 3));
  MCCL_RETURN_IF_ERROR(check_range("-r", words.root, 0, kCountMax));
  MCCL_RETURN_IF_ERROR(check_range("-T", words.timeout_s, 0, 1e7));
  MCCL_RETURN_IF_ERROR(check_range("-t", words.thread_count, 1, kRanksMax));
  MCCL_RETURN_IF_ERROR(check_range("-g", words.device_count, 1, kRanksMax));
  if (words.rank_count != 0)
    MCCL_RETURN_IF_ERROR(check_range("--ranks", words.rank_count, 1, kRanksMax));
  return Status::ok();
}

// nccl-tests runs -t times -g ranks in one process.
Status read_ranks(const PerfWords& words, PerfOptions& options) {
  const int devices = words.thread_count * words.device_count;
  options.rank_count = words.rank_count;
  if (devices == 1) return Status::ok();
  if (words.rank_count != 0) {
    options.notices.push_back(
        fmt::format("-t {} -g {}: no effect, as --ranks says how many ranks there are",
                    words.thread_count, words.device_count));
    return Status::ok();
  }
  MCCL_RETURN_IF_ERROR(check_range("-t times -g", devices, 1, kRanksMax));
  options.rank_count = devices;
  options.notices.push_back(fmt::format("-t {} -g {}: {} ranks, each a process of its own",
                                        words.thread_count, words.device_count, devices));
  return Status::ok();
}

Status read_algos(const PerfWords& words, PerfOptions& options) {
  if (words.algos.size() > kAlgosMax)
    return wrong_usage(fmt::format("--algo: at most {} of them", kAlgosMax));
  for (size_t index = 0; index < words.algos.size(); ++index)
    if (std::find(words.algos.begin(), words.algos.begin() + static_cast<std::ptrdiff_t>(index),
                  words.algos[index]) != words.algos.begin() + static_cast<std::ptrdiff_t>(index))
      return wrong_usage(fmt::format("--algo {} is given twice", words.algos[index]));
  options.algos = words.algos.empty() ? std::vector<std::string>{""} : words.algos;
  return Status::ok();
}

}  // namespace

Result<PerfOptions> read_perf_options(const PerfWords& words) {
  PerfOptions options;
  const std::optional<Collective> collective = find_perf_collective(words.collective);
  if (!collective)
    return wrong_usage(fmt::format(
        "\"{}\" is no collective; there are all_reduce, all_gather, broadcast, reduce_scatter, "
        "reduce, gather, scatter and all_to_all, also as nccl-tests calls them (all_reduce_perf)",
        words.collective));
  options.collective = *collective;
  MCCL_RETURN_IF_ERROR(check_numbers(words));
  MCCL_RETURN_IF_ERROR(read_dtypes(words, options));
  MCCL_RETURN_IF_ERROR(read_ops(words, options));
  MCCL_RETURN_IF_ERROR(check_pairs(options));
  MCCL_RETURN_IF_ERROR(read_sizes(words, options));
  MCCL_RETURN_IF_ERROR(read_ranks(words, options));
  MCCL_RETURN_IF_ERROR(read_algos(words, options));
  options.iteration_count = words.iteration_count;
  options.aggregate_count = words.aggregate_count;
  options.warmup_count = words.warmup_count;
  options.cycle_count = words.cycle_count;
  options.is_checked = words.check_count > 0;
  options.root = is_rooted(*collective) ? words.root : 0;
  options.average = static_cast<RankAverage>(words.average);
  options.timeout_s = words.timeout_s;
  if (!words.idle_flags.empty())
    options.notices.push_back(
        fmt::format("{}: accepted and without effect, there is nothing of "
                    "that kind here",
                    fmt::join(words.idle_flags, " ")));
  if (words.check_count > 1)
    options.notices.push_back(fmt::format(
        "-c {}: as -c 1, which checks the result of every iteration", words.check_count));
  return options;
}

Result<int64_t> parse_perf_bytes(std::string_view flag, std::string_view text) {
  constexpr std::string_view kSuffixes = "KMGT";
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  std::string_view suffix(stop, static_cast<size_t>(end - stop));
  double unit = 1;
  if (!suffix.empty()) {
    const size_t place =
        kSuffixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(suffix.front()))));
    if (place != std::string_view::npos) {
      unit = std::ldexp(1.0, 10 * (static_cast<int>(place) + 1));
      suffix.remove_prefix(1);
    }
    if (unit > 1 && (suffix == "B" || suffix == "b")) suffix.remove_prefix(1);
  }
  if (error != std::errc() || !suffix.empty() || !(value >= 0) ||
      !(value * unit <= static_cast<double>(kBytesMax)))
    return wrong_usage(
        fmt::format("{} \"{}\" is not a size: bytes up to 1T, with a suffix K, M or G (powers of "
                    "1024) or none",
                    flag, text));
  return static_cast<int64_t>(value * unit);
}

std::string_view perf_dtype_name(DataType dtype) {
  for (const auto& row : kDtypes)
    if (row.value == dtype) return row.name;
  return dtype_name(dtype);
}

std::string_view perf_op_name(ReduceOp op) {
  for (const auto& row : kOps)
    if (row.value == op) return row.name;
  return reduce_op_name(op);
}

std::optional<Collective> find_perf_collective(std::string_view name) {
  constexpr std::string_view kSuffix = "_perf";
  std::string_view stem = name;
  if (stem.ends_with(kSuffix)) stem.remove_suffix(kSuffix.size());
  if (stem == "alltoall") return Collective::AllToAll;
  for (const Collective collective : kCollectives)
    if (collective_name(collective) == stem) return collective;
  return std::nullopt;
}

std::string perf_program_name(Collective collective) {
  if (collective == Collective::AllToAll) return "alltoall_perf";
  return fmt::format("{}_perf", collective_name(collective));
}

bool is_rooted(Collective collective) {
  return collective == Collective::Broadcast || collective == Collective::Reduce ||
         collective == Collective::Gather || collective == Collective::Scatter;
}

}  // namespace mccl
