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

struct FloatFormat {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << fraction_bits; }
  uint64_t sign() const { return uint64_t{1} << (exponent_bits + fraction_bits); }
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

// What the roundings of a reduction can do; worked out once per call.
struct FloatBounds {
  FloatBounds(const FloatFormat& its_format, size_t input_count)
      : format(its_format),
        least(std::ldexp(1.0, 1 - format.bias() - format.fraction_bits)),
        least_normal(std::ldexp(1.0, 1 - format.bias())),
        bound(std::ldexp(1.0, format.bias())),
        relative(std::pow(1 + std::ldexp(1.0L, -format.fraction_bits - 1),
                          static_cast<long double>(input_count)) -
                 1 + 0x1p-60L),
        absolute(static_cast<long double>(input_count) * least) {}

  FloatFormat format;
  double least;         // the smallest number
  double least_normal;  // and the smallest normal one
  double bound;         // far enough below the largest number that no rounding overflows
  // Up to n - 1 operations and a division, each off by at most half a unit in the last place of a
  // result; long double is exact enough to compare with.
  long double relative;
  long double absolute;
};

double value_of(const FloatBounds& bounds, uint64_t bits) {
  const FloatFormat& format = bounds.format;
  const uint64_t magnitude = bits & (format.sign() - 1);
  if (magnitude > format.infinity()) return std::nan("");
  double value = INFINITY;
  if (magnitude < uint64_t{1} << format.fraction_bits)
    value = static_cast<double>(magnitude) * bounds.least;
  else if (magnitude < format.infinity())
    value = std::bit_cast<double>((magnitude << (52 - format.fraction_bits)) +
                                  (static_cast<uint64_t>(1023 - format.bias()) << 52));
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

bool is_product_right(const FloatBounds& bounds, std::span<const double> values, double found) {
  long double product = 1;
  long double large = 1;
  long double small = 1;
  for (const double value : values) {
    product *= value;
    large *= std::max(1.0, std::abs(value));
    small *= std::min(1.0, std::abs(value));
  }
  // Some order of the factors may leave the normal range on the way; its bits are the reference's
  // to say, as those of NaN are.
  const bool is_ordinary = large < bounds.bound && small > bounds.least_normal;
  if (!is_ordinary || std::isnan(product)) return true;
  return std::abs(found - product) <= std::abs(product) * bounds.relative + bounds.absolute;
}

bool is_float_right(const FloatBounds& bounds, ReduceOp op, std::span<const double> values,
                    double found) {
  if (op == ReduceOp::Product) return is_product_right(bounds, values, found);
  long double sum = 0;
  long double magnitude = 0;
  for (const double value : values) {
    sum += value;
    magnitude += std::abs(value);
  }
  // Sums of specials may overflow on the way.
  if (!(magnitude < bounds.bound)) return true;
  if (op == ReduceOp::Min) return found == *std::min_element(values.begin(), values.end());
  if (op == ReduceOp::Max) return found == *std::max_element(values.begin(), values.end());
  const long double divisor = op == ReduceOp::Avg ? static_cast<long double>(values.size()) : 1;
  return std::abs(found - sum / divisor) <= magnitude / divisor * bounds.relative + bounds.absolute;
}

// The first element that is wrong; the number of elements when none is.
size_t first_wrong_float(DataType dtype, ReduceOp op, std::span<const Bytes> inputs,
                         const Bytes& output) {
  const FloatBounds bounds(float_format(dtype), inputs.size());
  const size_t count = output.size() / dtype_bytes(dtype);
  std::vector<double> values(inputs.size());
  for (size_t index = 0; index < count; ++index) {
    for (size_t input = 0; input < inputs.size(); ++input)
      values[input] = value_of(bounds, load_bits(inputs[input], dtype, index));
    if (!is_float_right(bounds, op, values, value_of(bounds, load_bits(output, dtype, index))))
      return index;
  }
  return count;
}

size_t first_wrong(DataType dtype, ReduceOp op, std::span<const Bytes> inputs,
                   const Bytes& output) {
  const TypeFamily family = family_of(dtype);
  if (family == TypeFamily::Floating) return first_wrong_float(dtype, op, inputs, output);
  MCCL_CHECK(family == TypeFamily::Integer || family == TypeFamily::Boolean);
  const size_t count = output.size() / dtype_bytes(dtype);
  for (size_t index = 0; index < count; ++index) {
    const bool is_right = family == TypeFamily::Integer
                              ? is_integer_right(dtype, op, inputs, output, index)
                              : is_bool_right(op, inputs, output, index);
    if (!is_right) return index;
  }
  return count;
}

bool is_usual(DataType dtype, ReduceOp op) {
  const bool is_usual_type =
      dtype == DataType::Float32 || dtype == DataType::BFloat16 || dtype == DataType::Int64;
  const bool is_usual_op =
      op == ReduceOp::Sum || op == ReduceOp::Avg || op == ReduceOp::Min || op == ReduceOp::Max;
  return is_usual_type && is_usual_op;
}

// The usual pairs, and of the others those whose turn it is.
std::vector<ElementPair> with_turns(const std::vector<ElementPair>& all, const PairTurn& now) {
  std::vector<ElementPair> chosen;
  auto turn = static_cast<size_t>(now.rank_count);
  for (const auto& [dtype, op] : all) {
    if (is_usual(dtype, op)) {
      chosen.push_back({dtype, op});
      continue;
    }
    ++turn;
    if (turn % 3 != 0) continue;
    const size_t first = turn / 3;
    const bool is_first_turn = first % now.count_total == now.count_index;
    const bool is_second_turn =
        now.count_total > 2 && (first + now.count_total / 2) % now.count_total == now.count_index;
    if (is_first_turn || is_second_turn) chosen.push_back({dtype, op});
  }
  return chosen;
}

}  // namespace

std::vector<ElementPair> reduction_pairs(const PairTurn& now) {
  std::vector<ElementPair> all;
  for (const DataTypeRow& row : data_types())
    for (const ReduceOp op : all_reduce_ops())
      if (is_reduction_defined(row.dtype, op)) all.push_back({row.dtype, op});
  return with_turns(all, now);
}

std::vector<ElementPair> movement_pairs(const PairTurn& now) {
  std::vector<ElementPair> all;
  for (const DataTypeRow& row : all_data_types()) all.push_back({row.dtype, ReduceOp::Sum});
  return with_turns(all, now);
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
  const size_t index = first_wrong(dtype, op, inputs, output);
  if (index == output.size() / dtype_bytes(dtype)) return {};
  return std::string(dtype_name(dtype)) + " " + std::string(reduce_op_name(op)) + " " +
         std::to_string(index) + " of the reference is wrong";
}

}  // namespace mccl
