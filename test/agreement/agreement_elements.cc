// Inputs of the agreement tests, and the third judge of their expectations: long double arithmetic
// with the error bound of n - 1 roundings, integers modulo 2^64, bool as "or", "and" and "xor".
#include "agreement/agreement_elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/dtype.h"

namespace mccl {
namespace {

// A floating-point format: the value of its bits, and what its roundings can do.
struct FloatFormat {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << fraction_bits; }
  uint64_t sign() const { return uint64_t{1} << (exponent_bits + fraction_bits); }
  long double unit() const { return std::ldexp(1.0L, -fraction_bits - 1); }
  long double least() const { return std::ldexp(1.0L, 1 - bias() - fraction_bits); }
  long double least_normal() const { return std::ldexp(1.0L, 1 - bias()); }
  // Far enough below the largest number that no rounding overflows.
  long double bound() const { return std::ldexp(1.0L, bias()); }
};

FloatFormat float_format(DataType dtype) {
  if (dtype == DataType::Float64) return {11, 52};
  if (dtype == DataType::Float32) return {8, 23};
  if (dtype == DataType::Float16) return {5, 10};
  MCCL_CHECK(dtype == DataType::BFloat16);
  return {8, 7};
}

TypeFamily family_of(DataType dtype) {
  return all_data_types()[static_cast<size_t>(dtype)].family;
}

bool is_signed(DataType dtype) {
  return dtype == DataType::Int64 || dtype == DataType::Int32 || dtype == DataType::Int16 ||
         dtype == DataType::Int8;
}

// Little-endian bytes of an element of at most 8 bytes.
uint64_t load_bits(const Bytes& bytes, DataType dtype, size_t index) {
  uint64_t bits = 0;
  const size_t element_bytes = dtype_bytes(dtype);
  std::memcpy(&bits, bytes.data() + index * element_bytes, element_bytes);
  return bits;
}

long double value_of(DataType dtype, uint64_t bits) {
  const FloatFormat format = float_format(dtype);
  const uint64_t magnitude = bits & (format.sign() - 1);
  const uint64_t hidden = uint64_t{1} << format.fraction_bits;
  if (magnitude > format.infinity()) return std::nanl("");
  long double value = INFINITY;
  if (magnitude < hidden)
    value = static_cast<long double>(magnitude) * format.least();
  else if (magnitude < format.infinity())
    value = std::ldexp(
        static_cast<long double>((magnitude & (hidden - 1)) | hidden),
        static_cast<int>(magnitude >> format.fraction_bits) - format.bias() - format.fraction_bits);
  return (bits & format.sign()) != 0 ? -value : value;
}

// Half of them within a factor of 4 of one, so that products stay finite; the others up to 100, or
// 16 in float16. No rounding: the fraction is drawn as bits.
uint64_t random_float_bits(const FloatFormat& format, Prng& prng) {
  const uint64_t fraction = prng.next() & ((uint64_t{1} << format.fraction_bits) - 1);
  const bool is_near_one = prng.below(2) == 0;
  const uint64_t exponent = is_near_one                ? prng.below(4)
                            : format.exponent_bits > 5 ? prng.below(9)
                                                       : prng.below(6);
  const uint64_t field = static_cast<uint64_t>(format.bias()) + exponent - 2;
  return (field << format.fraction_bits) | fraction | (prng.below(2) == 0 ? 0 : format.sign());
}

// Bits that no ordinary arithmetic makes: quiet and signalling NaNs with payloads, infinities, both
// zeros, subnormals and the largest finite numbers.
uint64_t special_float_bits(const FloatFormat& format, Prng& prng) {
  const uint64_t infinity = format.infinity();
  const uint64_t quiet = uint64_t{1} << (format.fraction_bits - 1);
  const std::array<uint64_t, 8> magnitudes = {
      infinity | quiet, infinity | quiet | 1, infinity | 1, infinity, 0, 1, quiet, infinity - 1};
  return magnitudes[prng.below(magnitudes.size())] | (prng.below(2) == 0 ? 0 : format.sign());
}

uint64_t random_bits(DataType dtype, bool with_specials, Prng& prng) {
  switch (family_of(dtype)) {
    case TypeFamily::Floating: {
      const FloatFormat format = float_format(dtype);
      const bool is_special = with_specials && prng.below(3) == 0;
      return is_special ? special_float_bits(format, prng) : random_float_bits(format, prng);
    }
    case TypeFamily::Integer:
      return prng.below(4) == 0 ? prng.next() : prng.below(2000) - 1000;
    case TypeFamily::Boolean:
      return prng.below(4) == 0 ? prng.next() : prng.below(2);
    case TypeFamily::Complex:
    case TypeFamily::Float8:
      break;
  }
  return prng.next();
}

uint64_t combine_integers(DataType dtype, ReduceOp op, uint64_t left, uint64_t right) {
  // Elements come without their upper bytes: a signed order needs the sign at the top.
  const auto shift = static_cast<int>(64 - 8 * dtype_bytes(dtype));
  const bool left_is_less = is_signed(dtype) ? std::bit_cast<int64_t>(left << shift) <
                                                   std::bit_cast<int64_t>(right << shift)
                                             : left < right;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return left + right;
    case ReduceOp::Product:
      return left * right;
    case ReduceOp::Min:
      return left_is_less ? left : right;
    case ReduceOp::Max:
      return left_is_less ? right : left;
    case ReduceOp::BitAnd:
      return left & right;
    case ReduceOp::BitOr:
      return left | right;
    case ReduceOp::BitXor:
      return left ^ right;
  }
  return left;
}

bool is_integer_right(DataType dtype, ReduceOp op, std::span<const Bytes> inputs,
                      const Bytes& output, size_t index) {
  const auto shift = static_cast<int>(64 - 8 * dtype_bytes(dtype));
  uint64_t total = load_bits(inputs[0], dtype, index);
  for (const Bytes& bytes : inputs.subspan(1))
    total = combine_integers(dtype, op, total, load_bits(bytes, dtype, index));
  total = total << shift >> shift;
  if (op == ReduceOp::Avg) {
    const auto divisor = static_cast<int64_t>(inputs.size());
    const int64_t extended = std::bit_cast<int64_t>(total << shift) >> shift;
    total = is_signed(dtype) ? std::bit_cast<uint64_t>(extended / divisor) << shift >> shift
                             : total / static_cast<uint64_t>(divisor);
  }
  return load_bits(output, dtype, index) == total;
}

bool is_bool_right(ReduceOp op, std::span<const Bytes> inputs, const Bytes& output, size_t index) {
  const uint64_t found = load_bits(output, DataType::Bool, index);
  if (inputs.size() == 1) return found == load_bits(inputs[0], DataType::Bool, index);
  const auto true_count = std::count_if(inputs.begin(), inputs.end(), [&](const Bytes& bytes) {
    return load_bits(bytes, DataType::Bool, index) != 0;
  });
  const bool is_or = op == ReduceOp::Sum || op == ReduceOp::Max || op == ReduceOp::BitOr;
  const bool expected = is_or                    ? true_count > 0
                        : op == ReduceOp::BitXor ? true_count % 2 == 1
                                                 : true_count == std::ssize(inputs);
  return found == (expected ? 1 : 0);
}

// Up to n - 1 operations and a division, each off by at most half a unit in the last place of a
// result that `magnitude` bounds; long double is exact enough to compare with.
long double tolerance(const FloatFormat& format, size_t input_count, long double magnitude) {
  const auto n = static_cast<long double>(input_count);
  return magnitude * (std::pow(1 + format.unit(), n) - 1 + 0x1p-60L) + n * format.least();
}

bool is_product_right(DataType dtype, std::span<const Bytes> inputs, const Bytes& output,
                      size_t index) {
  const FloatFormat format = float_format(dtype);
  long double product = 1;
  long double large = 1;
  long double small = 1;
  for (const Bytes& bytes : inputs) {
    const long double value = value_of(dtype, load_bits(bytes, dtype, index));
    product *= value;
    large *= std::max(1.0L, std::abs(value));
    small *= std::min(1.0L, std::abs(value));
  }
  // Some order of the factors may leave the normal range on the way; its bits are the reference's
  // to say, as those of NaN are.
  const bool is_ordinary = large < format.bound() && small > format.least_normal();
  if (!is_ordinary || std::isnan(product)) return true;
  const long double found = value_of(dtype, load_bits(output, dtype, index));
  return std::abs(found - product) <= tolerance(format, inputs.size(), std::abs(product));
}

bool is_float_right(DataType dtype, ReduceOp op, std::span<const Bytes> inputs, const Bytes& output,
                    size_t index) {
  if (op == ReduceOp::Product) return is_product_right(dtype, inputs, output, index);
  const FloatFormat format = float_format(dtype);
  long double sum = 0;
  long double magnitude = 0;
  long double least = INFINITY;
  long double most = -INFINITY;
  for (const Bytes& bytes : inputs) {
    const long double value = value_of(dtype, load_bits(bytes, dtype, index));
    sum += value;
    magnitude += std::abs(value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // Sums of specials may overflow on the way.
  if (!(magnitude < format.bound())) return true;
  const long double found = value_of(dtype, load_bits(output, dtype, index));
  if (op == ReduceOp::Min) return found == least;
  if (op == ReduceOp::Max) return found == most;
  const long double divisor = op == ReduceOp::Avg ? static_cast<long double>(inputs.size()) : 1;
  return std::abs(found - sum / divisor) <= tolerance(format, inputs.size(), magnitude / divisor);
}

bool is_right(DataType dtype, ReduceOp op, std::span<const Bytes> inputs, const Bytes& output,
              size_t index) {
  switch (family_of(dtype)) {
    case TypeFamily::Floating:
      return is_float_right(dtype, op, inputs, output, index);
    case TypeFamily::Integer:
      return is_integer_right(dtype, op, inputs, output, index);
    case TypeFamily::Boolean:
      return is_bool_right(op, inputs, output, index);
    case TypeFamily::Complex:
    case TypeFamily::Float8:
      break;
  }
  return false;
}

bool is_usual(DataType dtype, ReduceOp op) {
  const bool is_usual_type =
      dtype == DataType::Float32 || dtype == DataType::BFloat16 || dtype == DataType::Int64;
  const bool is_usual_op =
      op == ReduceOp::Sum || op == ReduceOp::Avg || op == ReduceOp::Min || op == ReduceOp::Max;
  return is_usual_type && is_usual_op;
}

// The usual pairs, and of the others those whose turn it is.
std::vector<ElementPair> with_turns(const std::vector<ElementPair>& all, size_t count_index,
                                    size_t count_total) {
  std::vector<ElementPair> chosen;
  size_t turn = 0;
  for (const auto& [dtype, op] : all) {
    if (is_usual(dtype, op)) {
      chosen.push_back({dtype, op});
      continue;
    }
    if (turn % count_total == count_index || (turn + count_total / 2) % count_total == count_index)
      chosen.push_back({dtype, op});
    ++turn;
  }
  return chosen;
}

}  // namespace

std::vector<ElementPair> reduction_pairs(size_t count_index, size_t count_total) {
  std::vector<ElementPair> all;
  for (const DataTypeRow& row : data_types())
    for (const ReduceOp op : all_reduce_ops())
      if (is_reduction_defined(row.dtype, op)) all.push_back({row.dtype, op});
  return with_turns(all, count_index, count_total);
}

std::vector<ElementPair> movement_pairs(size_t count_index, size_t count_total) {
  std::vector<ElementPair> all;
  for (const DataTypeRow& row : all_data_types()) all.push_back({row.dtype, ReduceOp::Sum});
  return with_turns(all, count_index, count_total);
}

bool has_special_values(DataType dtype) {
  return family_of(dtype) == TypeFamily::Floating;
}

Bytes make_elements(DataType dtype, bool with_specials, Prng& prng, int64_t count) {
  const size_t element_bytes = dtype_bytes(dtype);
  Bytes bytes(static_cast<size_t>(count) * element_bytes);
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t bits = random_bits(dtype, with_specials, prng);
    const size_t here_bytes = std::min(element_bytes, sizeof(bits));
    std::memcpy(bytes.data() + at, &bits, here_bytes);
    at += here_bytes;
  }
  return bytes;
}

std::string judge_elements(DataType dtype, ReduceOp op, std::span<const Bytes> inputs,
                           const Bytes& output) {
  for (size_t index = 0; index < output.size() / dtype_bytes(dtype); ++index)
    if (!is_right(dtype, op, inputs, output, index))
      return std::string(dtype_name(dtype)) + " " + std::string(reduce_op_name(op)) + " " +
             std::to_string(index) + " of the reference is wrong";
  return {};
}

}  // namespace mccl
