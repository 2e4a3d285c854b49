// The CPU device: checks, the control register, and the blocks of a fold. The loops over elements
// are kernels of cpu_reduce_<family>.cc.
//
// A fold goes block by block: all sources of a block meet in an accumulator that stays in the first
// level cache, then every destination's block is written once. So a destination may be a source,
// every source is read once and every destination written once.
#include "device/cpu_device.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "device/float_control_guard.h"

namespace mccl {
namespace {

// An accumulator, a source's block and a destination's block fit a cache of 32 KiB together. A
// multiple of two vectors, as kernels need.
constexpr size_t kAccumulatorBytes = 8192;
static_assert(kAccumulatorBytes % (2 * kVectorBytesMax) == 0);

size_t block_count(DataType dtype) {
  return kAccumulatorBytes / std::max(dtype_bytes(dtype), sizeof(float));
}

const ReduceRow& find_row(const CpuReduceTable& table, DataType dtype) {
  const auto index = static_cast<size_t>(dtype);
  MCCL_CHECK_LT(index, table.rows.size());
  MCCL_CHECK(table.rows[index] != nullptr);
  return *table.rows[index];
}

const ReduceKernel& find_kernel(const CpuReduceTable& table, DataType dtype, ReduceOp op) {
  const auto& kernels = find_row(table, dtype).kernels;
  MCCL_CHECK_LT(static_cast<size_t>(op), kernels.size());
  const ReduceKernel& kernel = kernels[static_cast<size_t>(op)];
  MCCL_CHECK(kernel.combine != nullptr);
  return kernel;
}

// Elements [begin, begin + count) of every source into the same elements of one destination.
void fold_block(const ReduceKernel& kernel, void* destination, std::span<const void* const> sources,
                size_t begin_bytes, size_t count) {
  const auto block = [&](size_t source_index) {
    return static_cast<const std::byte*>(sources[source_index]) + begin_bytes;
  };
  if (sources.size() == 2) {
    kernel.combine(destination, block(0), block(1), count);
    return;
  }
  alignas(kVectorBytesMax) std::array<std::byte, kAccumulatorBytes> accumulator;
  kernel.start(accumulator.data(), block(0), block(1), count);
  const size_t last_index = sources.size() - 1;
  for (size_t source_index = 2; source_index < last_index; ++source_index)
    kernel.accumulate(accumulator.data(), accumulator.data(), block(source_index), count);
  kernel.finish(destination, accumulator.data(), block(last_index), count);
}

}  // namespace

CpuDevice::CpuDevice() : table_(cpu_reduce_table()) {}

bool CpuDevice::supports(DataType dtype, ReduceOp op) const {
  const auto row = static_cast<size_t>(dtype);
  const auto column = static_cast<size_t>(op);
  return row < table_.rows.size() && table_.rows[row] != nullptr &&
         column < table_.rows[row]->kernels.size() &&
         table_.rows[row]->kernels[column].combine != nullptr;
}

void CpuDevice::reduce(DataType dtype, ReduceOp op, void* result, const void* left,
                       const void* right, size_t count) const {
  const ReduceKernel& kernel = find_kernel(table_, dtype, op);
  const FloatControlGuard guard;
  kernel.combine(result, left, right, count);
}

void CpuDevice::fold(DataType dtype, ReduceOp op, std::span<void* const> destinations,
                     std::span<const void* const> sources, size_t count) const {
  MCCL_CHECK_LT(size_t{0}, sources.size());
  const ReduceKernel& kernel = find_kernel(table_, dtype, op);
  if (destinations.empty()) return;
  const FloatControlGuard guard;
  const size_t element_bytes = dtype_bytes(dtype);
  const size_t block_count_max = block_count(dtype);
  for (size_t begin = 0; begin < count; begin += block_count_max) {
    const size_t here_count = std::min(block_count_max, count - begin);
    const size_t begin_bytes = begin * element_bytes;
    auto* first = static_cast<std::byte*>(destinations[0]) + begin_bytes;
    const void* folded = first;
    if (sources.size() > 1)
      fold_block(kernel, first, sources, begin_bytes, here_count);
    else
      folded = static_cast<const std::byte*>(sources[0]) + begin_bytes;
    for (void* destination : destinations) {
      std::byte* const block = static_cast<std::byte*>(destination) + begin_bytes;
      if (block != folded) std::memcpy(block, folded, here_count * element_bytes);
    }
  }
}

void CpuDevice::divide(DataType dtype, void* data, size_t count, int64_t divisor) const {
  MCCL_CHECK_LT(0, divisor);
  const DivideFunction kernel = find_row(table_, dtype).divide;
  MCCL_CHECK(kernel != nullptr);
  const FloatControlGuard guard;
  kernel(data, count, divisor);
}

}  // namespace mccl
