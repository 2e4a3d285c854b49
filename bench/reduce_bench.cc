// Speed of the CPU device per operation, type and size; for the usual types beside the plain loop
// that a compiler makes of the same arithmetic at -O2. GB/s counts the bytes of one operand (of one
// source in a fold, times the sources), so a value compares directly with the rate of a copy.
//
//   reduce_bench --benchmark_filter=reduce/bfloat16
#include <benchmark/benchmark.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/cpu_device.h"

namespace mccl {
namespace {

constexpr std::array<int64_t, 3> kSizes = {16 << 10, 256 << 10, 16 << 20};  // bytes per operand
constexpr std::array kOps = {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max};
constexpr size_t kFoldSourceCount = 8;

struct BFloat16 {
  uint16_t bits;
};

float to_float(float value) {
  return value;
}
float to_float(BFloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

// Element by element, with the device's rounding.
template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    if (std::isnan(value)) return {0x7fc0};
    const auto bits = std::bit_cast<uint32_t>(value);
    return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
}

template <class T>
T plain(ReduceOp op, T left, T right) {
  if constexpr (std::is_same_v<T, int64_t>) {
    if (op == ReduceOp::Min) return left < right ? left : right;
    if (op == ReduceOp::Max) return left > right ? left : right;
    return static_cast<int64_t>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
  } else {
    const float first = to_float(left);
    const float second = to_float(right);
    if (op == ReduceOp::Min) return from_float<T>(first < second ? first : second);
    if (op == ReduceOp::Max) return from_float<T>(first > second ? first : second);
    return from_float<T>(first + second);
  }
}

template <class T, ReduceOp op>
__attribute__((noinline)) void plain_loop(T* result, const T* left, const T* right, size_t count) {
#if defined(__clang__)
#pragma clang loop vectorize(disable) unroll(disable)
#endif
  for (size_t i = 0; i < count; ++i) result[i] = plain(op, left[i], right[i]);
}

void count_bytes(benchmark::State& state, double bytes) {
  state.counters["GB/s"] =
      benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

// Memory as tensors have it: each operand begins at a cache line.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(operator new (count * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* memory, size_t) { operator delete (memory, std::align_val_t{64}); }
  bool operator==(const LineAllocator&) const = default;
};
template <class T>
using Lines = std::vector<T, LineAllocator<T>>;

// Small finite values of any type: the bytes 0 to 63.
Lines<uint8_t> operand(int64_t bytes) {
  Lines<uint8_t> values(static_cast<size_t>(bytes));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7 % 64);
  return values;
}

void run_reduce(benchmark::State& state, DataType dtype, ReduceOp op, bool is_in_place) {
  const CpuDevice device;
  auto left = operand(state.range(0));
  const auto right = operand(state.range(0));
  Lines<uint8_t> result(left.size());
  const size_t count = left.size() / dtype_bytes(dtype);
  void* const destination = is_in_place ? left.data() : result.data();
  for (auto _ : state) {
    device.reduce(dtype, op, destination, left.data(), right.data(), count);
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<double>(left.size()));
}

template <class T, ReduceOp op>
void run_plain(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0)) / sizeof(T);
  Lines<T> left(count);
  Lines<T> result(count);
  const auto bytes = operand(state.range(0));
  std::memcpy(left.data(), bytes.data(), bytes.size());
  const Lines<T> right = left;
  for (auto _ : state) {
    plain_loop<T, op>(result.data(), left.data(), right.data(), count);
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<double>(bytes.size()));
}

void run_fold(benchmark::State& state, DataType dtype) {
  const CpuDevice device;
  const std::vector<Lines<uint8_t>> sources(kFoldSourceCount, operand(state.range(0)));
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  Lines<uint8_t> result(sources[0].size());
  void* const destination = result.data();
  for (auto _ : state) {
    device.fold(dtype, ReduceOp::Sum, {&destination, 1}, pointers,
                result.size() / dtype_bytes(dtype));
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<double>(result.size() * kFoldSourceCount));
}

void run_divide(benchmark::State& state, DataType dtype) {
  const CpuDevice device;
  auto data = operand(state.range(0));
  for (auto _ : state) {
    device.divide(dtype, data.data(), data.size() / dtype_bytes(dtype), 1);
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<double>(data.size()));
}

void run_copy(benchmark::State& state) {
  const auto source = operand(state.range(0));
  Lines<uint8_t> result(source.size());
  for (auto _ : state) {
    std::memcpy(result.data(), source.data(), source.size());
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<double>(source.size()));
}

template <class Run, class... Arguments>
void add(const std::string& name, Run run, Arguments... arguments) {
  auto* const benchmark = benchmark::RegisterBenchmark(name.c_str(), run, arguments...);
  for (const int64_t size : kSizes) benchmark->Arg(size);
}

template <class T>
void add_type(DataType dtype) {
  const std::string type(dtype_name(dtype));
  const std::array plain_loops = {&run_plain<T, ReduceOp::Sum>, &run_plain<T, ReduceOp::Min>,
                                  &run_plain<T, ReduceOp::Max>};
  for (size_t i = 0; i < kOps.size(); ++i) {
    const std::string suffix = "/" + type + "/" + std::string(reduce_op_name(kOps[i]));
    add("reduce" + suffix, run_reduce, dtype, kOps[i], false);
    add("reduce_in_place" + suffix, run_reduce, dtype, kOps[i], true);
    add("plain_loop" + suffix, plain_loops[i]);
  }
  add("fold_8/" + type + "/sum", run_fold, dtype);
  add("divide/" + type, run_divide, dtype);
}

// Every other pair, without a plain loop.
void add_other_types() {
  const CpuDevice device;
  for (const DataTypeRow& row : data_types()) {
    if (row.dtype == DataType::Float32 || row.dtype == DataType::BFloat16 ||
        row.dtype == DataType::Int64)
      continue;
    const std::string type(row.name);
    for (const ReduceOp op : all_reduce_ops())
      if (op != ReduceOp::Avg && device.supports(row.dtype, op))
        add("reduce/" + type + "/" + std::string(reduce_op_name(op)), run_reduce, row.dtype, op,
            false);
    add("fold_8/" + type + "/sum", run_fold, row.dtype);
    if (device.supports(row.dtype, ReduceOp::Avg)) add("divide/" + type, run_divide, row.dtype);
  }
}

}  // namespace
}  // namespace mccl

int main(int argument_count, char** arguments) {
  mccl::add("copy", mccl::run_copy);
  mccl::add_type<float>(mccl::DataType::Float32);
  mccl::add_type<mccl::BFloat16>(mccl::DataType::BFloat16);
  mccl::add_type<int64_t>(mccl::DataType::Int64);
  mccl::add_other_types();
  benchmark::Initialize(&argument_count, arguments);
  if (benchmark::ReportUnrecognizedArguments(argument_count, arguments)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
