// The rules of MSCCL's runtimes that depend on the call (the others are the planner's,
// selection.h), and the one that is ours alone: equal bits on all ranks. Units of counts are those
// of the file's dialect: microsoft/msccl turns the counts of all_gather and broadcast into bytes
// before it asks whether they divide, and multiplies those of all_gather, reduce_scatter and
// all_to_all by the number of ranks, which their number of chunks is multiplied by as well. Tests:
// program_fit_test.cc.
#include "planner/program_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/dtype.h"
#include "ir/collective.h"

namespace mccl {
namespace {

bool is_floating(DataType dtype) {
  const auto row = static_cast<size_t>(dtype);
  return row < data_types().size() && data_types()[row].family == TypeFamily::Floating;
}

bool is_rooted_reduction_or_copy(Collective collective) {
  return collective == Collective::Reduce || collective == Collective::Gather ||
         collective == Collective::Scatter;
}

// The number that must be a multiple of the program's chunks per block.
int64_t divided_count(const LoadedProgram& loaded, const CallFacts& call) {
  const Collective collective = loaded.program.collective;
  const bool is_in_bytes =
      loaded.dialect == XmlDialect::Msccl &&
      (collective == Collective::AllGather || collective == Collective::Broadcast);
  return is_in_bytes ? call.block_count * static_cast<int64_t>(dtype_bytes(call.dtype))
                     : call.block_count;
}

bool divides(const LoadedProgram& loaded, const CallFacts& call) {
  return divided_count(loaded, call) % loaded.program.chunk_count == 0;
}

// Sums of integers wrap, and minima and maxima choose: order is nothing to them.
bool is_order_visible(const CallFacts& call) {
  return is_floating(call.dtype) && call.op != ReduceOp::Min && call.op != ReduceOp::Max;
}

bool is_original_op(ReduceOp op) {
  return op == ReduceOp::Sum || op == ReduceOp::Product || op == ReduceOp::Min ||
         op == ReduceOp::Max;
}

bool claims(const LoadedProgram& loaded, bool is_in_place) {
  return is_in_place ? loaded.program.in_place : loaded.program.out_of_place;
}

// An all_to_all has no in-place form, and programs need not say so.
bool has_in_place_form(Collective collective) {
  return collective != Collective::AllToAll;
}

bool is_claim_strictly_met(const LoadedProgram& loaded, const CallFacts& call) {
  const Collective collective = loaded.program.collective;
  if (!has_in_place_form(collective)) return true;
  // Only the root could tell, and all ranks have to agree.
  if (is_rooted_reduction_or_copy(collective)) return claims(loaded, true) && claims(loaded, false);
  return claims(loaded, call.is_in_place);
}

}  // namespace

Fit find_fit(const LoadedProgram& loaded, const CallFacts& call, bool is_strict) {
  const bool reduces = is_reducing(loaded.program.collective);
  Fit fit;
  fit.is_ragged = call.block_count % loaded.program.chunk_count != 0;
  fit.averages = reduces && call.op == ReduceOp::Avg;
  fit.copies_input =
      has_in_place_form(loaded.program.collective) && !claims(loaded, call.is_in_place);
  if (!loaded.is_bitwise_equal && is_order_visible(call))
    fit.rule = FitRule::BitEquality;
  else if (!is_strict)
    fit.rule = FitRule::Fits;
  else if (reduces && !is_original_op(call.op))
    fit.rule = FitRule::ReductionOp;
  else if (!is_claim_strictly_met(loaded, call))
    fit.rule = FitRule::InPlace;
  else if (!call.has_equal_blocks)
    fit.rule = FitRule::EqualBlocks;
  else if (!divides(loaded, call))
    fit.rule = FitRule::Divisibility;
  return fit;
}

FitWords describe_fit(FitRule rule, const LoadedProgram& loaded, const CallFacts& call) {
  const Program& program = loaded.program;
  switch (rule) {
    case FitRule::Fits:
      return {};
    case FitRule::BitEquality:
      return {fmt::format("its ranks add in different orders, and {} {} would differ in bits "
                          "between them",
                          dtype_name(call.dtype), reduce_op_name(call.op)),
              "integers, min or max"};
    case FitRule::ReductionOp:
      return {fmt::format("MCCL_ALGO_FIT=strict, and {} is no operation of MSCCL",
                          reduce_op_name(call.op)),
              "MCCL_ALGO_FIT=auto, or sum, product, min or max"};
    case FitRule::InPlace:
      if (is_rooted_reduction_or_copy(program.collective))
        return {fmt::format("MCCL_ALGO_FIT=strict, it claims {} calls only, and only the root of "
                            "a {} can tell",
                            program.in_place ? "in-place" : "out-of-place",
                            collective_name(program.collective)),
                "MCCL_ALGO_FIT=auto, or a program that claims both"};
      return {fmt::format("MCCL_ALGO_FIT=strict, it claims {} calls only, and the call is {}",
                          program.in_place ? "in-place" : "out-of-place",
                          call.is_in_place ? "in place" : "out of place"),
              fmt::format("MCCL_ALGO_FIT=auto, or an {} call",
                          program.in_place ? "in-place" : "out-of-place")};
    case FitRule::EqualBlocks:
      return {"MCCL_ALGO_FIT=strict, and the blocks differ in length",
              "MCCL_ALGO_FIT=auto, or equal blocks"};
    case FitRule::Divisibility: {
      const int64_t count = divided_count(loaded, call);
      const bool is_in_bytes = count != call.block_count;
      const int64_t chunks = program.chunk_count;
      return {fmt::format("MCCL_ALGO_FIT=strict, and a block of {} {} does not divide into {} "
                          "chunks",
                          count, is_in_bytes ? "bytes" : "elements", chunks),
              fmt::format("MCCL_ALGO_FIT=auto, or {} {}", (count + chunks - 1) / chunks * chunks,
                          is_in_bytes ? "bytes" : "elements")};
    }
  }
  return {};
}

const char* fit_rule_name(FitRule rule) {
  switch (rule) {
    case FitRule::Fits:
      return "fits";
    case FitRule::BitEquality:
      return "bit_equality";
    case FitRule::ReductionOp:
      return "reduction_op";
    case FitRule::InPlace:
      return "in_place";
    case FitRule::EqualBlocks:
      return "equal_blocks";
    case FitRule::Divisibility:
      return "divisibility";
  }
  return "unknown";
}

bool admits_protocol(const std::string& protocols, ProgramProtocol protocol) {
  if (protocols.empty()) return true;
  std::string_view rest = protocols;
  const bool is_exclusion = rest.starts_with('^');
  if (is_exclusion) rest.remove_prefix(1);
  const std::string_view wanted = protocol == ProgramProtocol::Simple       ? "simple"
                                  : protocol == ProgramProtocol::LowLatency ? "ll"
                                                                            : "ll128";
  bool is_listed = false;
  for (size_t begin = 0; begin <= rest.size();) {
    const size_t end = std::min(rest.find(',', begin), rest.size());
    is_listed |= rest.substr(begin, end - begin) == wanted;
    begin = end + 1;
  }
  return is_listed != is_exclusion;
}

}  // namespace mccl
