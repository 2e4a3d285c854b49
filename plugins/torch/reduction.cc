#include "reduction.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace mccl {
namespace {

// Our spelling of a torch type; empty for those that no dtype of ours stands for.
std::string_view spelling_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return "float64";
    case at::kFloat:
      return "float32";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kUInt64:
      return "uint64";
    case at::kUInt32:
      return "uint32";
    case at::kUInt16:
      return "uint16";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    case at::kFloat8_e4m3fn:
      return "float8_e4m3fn";
    case at::kFloat8_e5m2:
      return "float8_e5m2";
    case at::kFloat8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case at::kFloat8_e5m2fnuz:
      return "float8_e5m2fnuz";
    default:
      return {};
  }
}

[[noreturn]] void refuse(const std::string& what) {
  C10_THROW_ERROR(NotImplementedError, "mccl: " + what);
}

// Checked here: an error of the multiplication itself, later, would end the communicator.
at::Tensor scalar_of(const at::Tensor& factor) {
  if (!factor.device().is_cpu() || factor.layout() != at::kStrided || factor.is_complex() ||
      factor.is_quantized())
    refuse(c10::str("premul_sum by a ", factor.layout(), " ", factor.scalar_type(), " factor on ",
                    factor.device(), " is not supported; pass a real number"));
  return factor.detach().to(at::kDouble).reshape({});
}

// Of a PREMUL_SUM, instead of the type.
const char* alternative_to(at::ScalarType type) {
  if (c10::isFloat8Type(type)) return "reduce in float16 or bfloat16";
  if (c10::isComplexType(type)) return "multiply the tensor by the factor, then use sum";
  return "the factor needs float16, bfloat16, float32 or float64";
}

}  // namespace

Reduction reduction_of(const c10d::ReduceOp& op) {
  static constexpr const char* kNames[] = {"sum", "avg",     "product", "min",
                                           "max", "bit_and", "bit_or",  "bit_xor"};
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    const auto* factor = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK_VALUE(factor != nullptr, "mccl: ReduceOp.PREMUL_SUM comes without its factor");
    if (factor->tensor_factor.defined()) return {ReduceOp::Sum, scalar_of(factor->tensor_factor)};
    return {ReduceOp::Sum, at::scalar_tensor(factor->double_factor, at::kDouble)};
  }
  if (op.op_ < c10d::ReduceOp::PREMUL_SUM) {
    const std::optional<ReduceOp> found = find_reduce_op(kNames[op.op_]);
    if (found.has_value()) return {*found};
    refuse(std::string(kNames[op.op_]) + " is not supported");
  }
  refuse(
      "this ReduceOp is not supported; supported are SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, "
      "BXOR and PREMUL_SUM");
}

Elements moved_elements(at::ScalarType type) {
  const std::optional<DataType> found = find_dtype(spelling_of(type));
  if (found.has_value()) return {*found};
  if (c10::isQIntType(type)) refuse(c10::str("quantized tensors (", type, ") are not supported"));
  return {DataType::UInt8, static_cast<int64_t>(c10::elementSize(type))};
}

Elements reduced_elements(at::ScalarType type, const Reduction& reduction) {
  const std::optional<DataType> found = find_dtype(spelling_of(type));
  const bool is_scalable =
      type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
  if (reduction.factor.has_value() && !is_scalable)
    refuse(c10::str("premul_sum of ", found.has_value() ? dtype_name(*found) : toString(type),
                    " is not supported; ", alternative_to(type)));
  const bool is_sum = reduction.op == ReduceOp::Sum || reduction.op == ReduceOp::Avg;
  if (c10::isComplexType(type) && is_sum)
    return {moved_elements(c10::toRealValueType(type)).dtype, 2};
  if (found.has_value()) return {*found};
  refuse(c10::str(reduce_op_name(reduction.op), " of ", type,
                  " is not supported; convert to a type that mccl reduces, such as float32"));
}

}  // namespace mccl
