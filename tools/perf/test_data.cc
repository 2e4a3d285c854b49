// The bounds: a sum of all ranks must be exact in the type and in every partial sum, so a value is
// at most the largest whole number up to which the type has all of them, over the ranks. Products
// are powers of two of at most eight ranks. An average is a mean that pairs of ranks deviate from
// by opposite amounts. Where a type is too narrow for so many ranks, values shrink, at last to
// zeros.

#include "perf/test_data.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace mccl {
namespace {

constexpr int64_t kValuesMax = 64;
constexpr int kFactorRanks = 8;

// The largest n so that the type has every whole number from 0 to n. More than is used here counts
// as kValuesMax for every one of many ranks.
int64_t whole_numbers_of(DataType dtype) {
  switch (dtype) {
    case DataType::Int8:
      return 127;
    case DataType::UInt8:
      return 255;
    case DataType::BFloat16:
      return 256;
    case DataType::Float16:
      return 2048;
    case DataType::Int16:
      return 32'767;
    case DataType::UInt16:
      return 65'535;
    case DataType::Float32:
    case DataType::Complex64:
      return int64_t{1} << 24;
    case DataType::Int32:
    case DataType::Int64:
    case DataType::UInt32:
    case DataType::UInt64:
    case DataType::Float64:
    case DataType::Complex128:
      return int64_t{1} << 31;
    case DataType::Bool:
    case DataType::Float8E4M3FN:
    case DataType::Float8E5M2:
    case DataType::Float8E4M3FNUZ:
    case DataType::Float8E5M2FNUZ:
      break;
  }
  return 1;
}

int64_t share_of(const PatternKey& key) {
  return std::min(kValuesMax, whole_numbers_of(key.dtype) / key.rank_count);
}

int64_t sum_value(const PatternKey& key, int rank, int64_t place) {
  return (place * 7 + int64_t{rank} * 11 + key.iteration * 13) % (share_of(key) + 1);
}

int64_t average_value(const PatternKey& key, int rank, int64_t place) {
  const int64_t share = share_of(key);
  const int64_t spread = share >= 4 ? 1 + (place + key.iteration) % 2 : 0;
  const int64_t mean = spread + (place * 7 + key.iteration * 13) % (share + 1 - 2 * spread);
  // The last of an odd number of ranks has no partner.
  if (rank == key.rank_count - 1 && key.rank_count % 2 == 1) return mean;
  return rank % 2 == 0 ? mean + spread : mean - spread;
}

// Small whole numbers in binary16 and bfloat16: the bits of a float have the exponent and the few
// leading bits that are needed.
uint16_t half_bits(int64_t value) {
  if (value == 0) return 0;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const uint32_t exponent = (bits >> 23) - 127 + 15;
  return static_cast<uint16_t>((exponent << 10) | ((bits >> 13) & 0x3ff));
}

uint16_t bfloat16_bits(int64_t value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// `to` is zeroed: a complex number has its real part alone.
void write_value(DataType dtype, int64_t value, std::byte* to) {
  switch (dtype) {
    case DataType::Float64:
    case DataType::Complex128:
      return store(to, static_cast<double>(value));
    case DataType::Float32:
    case DataType::Complex64:
      return store(to, static_cast<float>(value));
    case DataType::Float16:
      return store(to, half_bits(value));
    case DataType::BFloat16:
      return store(to, bfloat16_bits(value));
    case DataType::Int64:
    case DataType::UInt64:
      return store(to, value);
    case DataType::Int32:
    case DataType::UInt32:
      return store(to, static_cast<uint32_t>(value));
    case DataType::Int16:
    case DataType::UInt16:
      return store(to, static_cast<uint16_t>(value));
    case DataType::Int8:
    case DataType::UInt8:
    case DataType::Bool:
    case DataType::Float8E4M3FN:
    case DataType::Float8E5M2:
    case DataType::Float8E4M3FNUZ:
    case DataType::Float8E5M2FNUZ:
      return store(to, static_cast<uint8_t>(value));
  }
}

template <class Value>
Pattern write_pattern(DataType dtype, Value value_at) {
  const size_t width = dtype_bytes(dtype);
  Pattern pattern(static_cast<size_t>(kPatternElements) * width);
  for (int64_t place = 0; place < kPatternElements; ++place)
    write_value(dtype, value_at(place), pattern.data() + static_cast<size_t>(place) * width);
  return pattern;
}

// Calls `visit(offset in data, place in pattern, bytes)` for the runs that lie in one repetition.
template <class Visit>
void visit_runs(const Pattern& pattern, int64_t first_index, int64_t count, Visit visit) {
  const size_t width = pattern.size() / static_cast<size_t>(kPatternElements);
  auto place = static_cast<size_t>(first_index % kPatternElements) * width;
  const size_t bytes = static_cast<size_t>(count) * width;
  for (size_t offset = 0; offset < bytes;) {
    const size_t run = std::min(pattern.size() - place, bytes - offset);
    visit(offset, place, run);
    offset += run;
    place = 0;
  }
}

}  // namespace

int64_t pattern_value(const PatternKey& key, int rank, int64_t place) {
  if (!key.is_reduced) return (place * 7 + int64_t{rank} * 29 + key.iteration * 13) % 251;
  switch (key.op) {
    case ReduceOp::Sum:
      return sum_value(key, rank, place);
    case ReduceOp::Avg:
      return average_value(key, rank, place);
    case ReduceOp::Product:
      return rank < kFactorRanks && (place + int64_t{rank} * 3 + key.iteration) % 2 == 0 ? 2 : 1;
    case ReduceOp::Min:
    case ReduceOp::Max:
    case ReduceOp::BitAnd:
    case ReduceOp::BitOr:
    case ReduceOp::BitXor:
      break;
  }
  return (place * 7 + int64_t{rank} * 29 + key.iteration * 13) % 101;
}

int64_t folded_value(const PatternKey& key, int64_t place) {
  int64_t folded = pattern_value(key, 0, place);
  for (int rank = 1; rank < key.rank_count; ++rank) {
    const int64_t value = pattern_value(key, rank, place);
    switch (key.op) {
      case ReduceOp::Sum:
      case ReduceOp::Avg:
        folded += value;
        break;
      case ReduceOp::Product:
        folded *= value;
        break;
      case ReduceOp::Min:
        folded = std::min(folded, value);
        break;
      case ReduceOp::Max:
        folded = std::max(folded, value);
        break;
      case ReduceOp::BitAnd:
        folded &= value;
        break;
      case ReduceOp::BitOr:
        folded |= value;
        break;
      case ReduceOp::BitXor:
        folded ^= value;
        break;
    }
  }
  if (key.op != ReduceOp::Avg) return folded;
  MCCL_CHECK_EQ(folded % key.rank_count, 0);
  return folded / key.rank_count;
}

Pattern make_pattern(const PatternKey& key, int rank) {
  return write_pattern(key.dtype, [&](int64_t place) { return pattern_value(key, rank, place); });
}

Pattern make_folded_pattern(const PatternKey& key) {
  return write_pattern(key.dtype, [&](int64_t place) { return folded_value(key, place); });
}

void fill_pattern(const Pattern& pattern, int64_t first_index, int64_t count, std::byte* data) {
  visit_runs(pattern, first_index, count, [&](size_t offset, size_t place, size_t bytes) {
    std::memcpy(data + offset, pattern.data() + place, bytes);
  });
}

int64_t count_wrong(const Pattern& pattern, int64_t first_index, int64_t count,
                    const std::byte* data) {
  const size_t width = pattern.size() / static_cast<size_t>(kPatternElements);
  int64_t wrong = 0;
  visit_runs(pattern, first_index, count, [&](size_t offset, size_t place, size_t bytes) {
    if (std::memcmp(data + offset, pattern.data() + place, bytes) == 0) return;
    for (size_t at = 0; at < bytes; at += width)
      if (std::memcmp(data + offset + at, pattern.data() + place + at, width) != 0) ++wrong;
  });
  return wrong;
}

}  // namespace mccl
