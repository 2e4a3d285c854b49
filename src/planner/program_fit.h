// Whether a program from a file serves a call of its window: what depends on the call alone, and
// what is made to fit (MCCL_ALGO_FIT). All ranks of a call come to the same answer: whatever is
// looked at here is part of the call's fingerprint.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/catalog.h"
#include "mccl/types.h"

namespace mccl {

// What the rules look at, of one call.
struct CallFacts {
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int64_t block_count = 0;  // elements of the longest block (a rank's share)
  bool has_equal_blocks = true;
  // Whether output and input share memory as input_alias() has it. Of reduce, gather and scatter,
  // where only the root can tell, only who is not strict may look.
  bool is_in_place = false;
  bool operator==(const CallFacts&) const = default;
};

// In the order in which they are asked. The first one that a call breaks is its reason.
enum class FitRule : uint8_t {
  Fits,
  BitEquality,   // ranks would differ in bits: sums and products of floats
  ReductionOp,   // strict: averages
  InPlace,       // strict: the program claims the other way
  EqualBlocks,   // strict: blocks of different lengths
  Divisibility,  // strict: the count is no multiple of the program's chunks
};

// What is done so that a call fits.
struct Fit {
  FitRule rule = FitRule::Fits;
  bool is_ragged = false;     // chunks are not all equally long
  bool copies_input = false;  // the program claims the other aliasing
  bool averages = false;      // a sum, and a division at the end
  bool operator==(const Fit&) const = default;
};

// For calls of the program's collective and rank count. Any thread, does not block.
Fit find_fit(const LoadedProgram& loaded, const CallFacts& call, bool is_strict);

// Why the rule rejects the call, and the smallest change that would satisfy it. Not for Fits.
struct FitWords {
  std::string reason;
  std::string remedy;
};
FitWords describe_fit(FitRule rule, const LoadedProgram& loaded, const CallFacts& call);

// "mccl.stats()" and rows of tools call the rules so: "bit_equality".
const char* fit_rule_name(FitRule rule);

// Whether a MCCL_PROTO of this canonical spelling admits the protocol.
bool admits_protocol(const std::string& protocols, ProgramProtocol protocol);

}  // namespace mccl
