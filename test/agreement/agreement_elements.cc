// Inputs of the agreement tests, and the third judge of their expectations: float64 sums with the
// error bound of n - 1 roundings, integers modulo 2^64.
#include "agreement/agreement_elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace mccl {
namespace {

// Bits of a bfloat16 or float32 that no ordinary arithmetic makes: quiet and signalling NaNs with
// payloads, infinities, both zeros, subnormals and the largest finite numbers.
constexpr std::array<uint32_t, 12> kSpecials = {0x7fc00000, 0xffc10000, 0x7f810000, 0x7f800000,
                                                0xff800000, 0x80000000, 0x00000000, 0x00010000,
                                                0x807f0000, 0x00200000, 0x7f7f0000, 0xff7f0000};

template <typename T>
T load_as(const Bytes& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

double load_float(const Bytes& bytes, DataType dtype, size_t index) {
  if (dtype == DataType::Float32) return static_cast<double>(load_as<float>(bytes, index));
  const uint32_t bits = load_as<uint16_t>(bytes, index);
  return static_cast<double>(std::bit_cast<float>(bits << 16));
}

void fill_element(DataType dtype, bool with_specials, Prng& prng, std::byte* element) {
  if (!has_special_values(dtype)) {
    const uint64_t bits = prng.below(4) == 0 ? prng.next() : prng.below(2000) - 1000;
    std::memcpy(element, &bits, dtype_bytes(dtype));
    return;
  }
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(prng.unit() * 200 - 100));
  if (with_specials && prng.below(3) == 0) bits = kSpecials[prng.below(kSpecials.size())];
  if (dtype == DataType::Float32) {
    std::memcpy(element, &bits, sizeof(bits));
  } else {
    const auto half = static_cast<uint16_t>(bits >> 16);
    std::memcpy(element, &half, sizeof(half));
  }
}

bool is_integer_right(ReduceOp op, std::span<const Bytes> inputs, const Bytes& output,
                      size_t index) {
  if (op != ReduceOp::Sum && op != ReduceOp::Avg) return true;
  const auto divisor = op == ReduceOp::Avg ? static_cast<int64_t>(inputs.size()) : 1;
  uint64_t sum = 0;
  for (const Bytes& bytes : inputs) sum += load_as<uint64_t>(bytes, index);
  return load_as<int64_t>(output, index) == std::bit_cast<int64_t>(sum) / divisor;
}

bool is_float_right(DataType dtype, ReduceOp op, std::span<const Bytes> inputs, const Bytes& output,
                    size_t index) {
  double sum = 0;
  double magnitude = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const Bytes& bytes : inputs) {
    const double value = load_float(bytes, dtype, index);
    sum += value;
    magnitude += std::abs(value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // Sums of specials may overflow on the way; their bits are the reference's to say.
  if (!(magnitude < 1e30)) return true;
  const double found = load_float(output, dtype, index);
  if (op == ReduceOp::Min) return found == least;
  if (op == ReduceOp::Max) return found == most;
  // n - 1 additions and a division, each off by at most half a unit in the last place, of values of
  // at most the sum of magnitudes; a float64 sum is exact enough to compare with.
  const double unit = dtype == DataType::Float32 ? 0x1p-24 : 0x1p-8;
  const double relative = std::pow(1 + unit, static_cast<double>(inputs.size())) - 1 + 0x1p-40;
  const double tiny = std::numeric_limits<float>::denorm_min() * 0x1p16;
  const double divisor = op == ReduceOp::Avg ? static_cast<double>(inputs.size()) : 1;
  return std::abs(found - sum / divisor) <= magnitude / divisor * relative + tiny;
}

}  // namespace

std::vector<ElementPair> reduction_pairs(size_t, size_t) {
  std::vector<ElementPair> pairs;
  for (const DataTypeRow& row : data_types())
    for (const ReduceOp op : all_reduce_ops()) pairs.push_back({row.dtype, op});
  return pairs;
}

std::vector<ElementPair> movement_pairs(size_t, size_t) {
  std::vector<ElementPair> pairs;
  for (const DataTypeRow& row : data_types()) pairs.push_back({row.dtype, ReduceOp::Sum});
  return pairs;
}

bool has_special_values(DataType dtype) {
  return dtype == DataType::Float32 || dtype == DataType::BFloat16;
}

Bytes make_elements(DataType dtype, bool with_specials, Prng& prng, int64_t count) {
  const size_t element_bytes = dtype_bytes(dtype);
  Bytes bytes(static_cast<size_t>(count) * element_bytes);
  for (size_t at = 0; at < bytes.size(); at += element_bytes)
    fill_element(dtype, with_specials, prng, bytes.data() + at);
  return bytes;
}

std::string judge_elements(DataType dtype, ReduceOp op, std::span<const Bytes> inputs,
                           const Bytes& output) {
  for (size_t index = 0; index < output.size() / dtype_bytes(dtype); ++index) {
    const bool is_right = dtype == DataType::Int64
                              ? is_integer_right(op, inputs, output, index)
                              : is_float_right(dtype, op, inputs, output, index);
    if (!is_right)
      return std::string(dtype_name(dtype)) + " " + std::string(reduce_op_name(op)) + " " +
             std::to_string(index) + " of the reference is wrong";
  }
  return {};
}

}  // namespace mccl
