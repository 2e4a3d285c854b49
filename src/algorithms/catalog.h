// The built-in algorithms. Adding one: its own file with a `const Algorithm k...`, one line in
// catalog.cc, one golden case in test/golden/algorithms. Everything else enumerates this list, to
// which an endpoint adds the programs that it has loaded from files (comm/program_library.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/xml.h"
#include "mccl/program.h"
#include "mccl/status.h"

namespace mccl {

struct Fraction {
  int64_t numerator = 0;
  int64_t denominator = 1;
};

// A part of a pipelined program that begins when the part before it ends, slice by slice.
struct PipelinePhase {
  int hops = 0;            // of AlgorithmCost::hops, as are the following
  int message_chunks = 1;  // of its largest message
  Fraction bytes_moved;
  Fraction bytes_reduced;
};

// Closed form, a test compares it with the lowered program for small rank counts. S = bytes of a
// rank's larger buffer: of the one block for all_reduce, reduce and broadcast, of the n blocks for
// the others.
struct AlgorithmCost {
  int hops = 0;               // messages on the longest chain of dependent messages
  int messages = 0;           // in one iteration, by the busiest rank in its busier direction
  int recv_streams = 0;       // streams on which the rank with the most of them receives
  int message_chunks = 1;     // of the largest message
  Fraction bytes_moved;       // by the busiest rank in its busier direction, over S
  Fraction bytes_reduced;     // by the busiest rank, over S
  Fraction scratch_bytes;     // of the hungriest rank, over S
  bool is_pipelined = false;  // every hop forwards slice by slice what arrives (cost_model.h)
  std::vector<PipelinePhase> phases = {};  // of a pipelined program; empty: it is one
};

// Called with every pair of ranks between which bytes travel, and how many: in chunks.
using TrafficVisitor = std::function<void(int from, int to, int64_t chunk_count)>;

// An algorithm that comes in groups of ranks: a family with one program per group size, called
// "all_reduce_two_level_ring:20". `cost` and `build` of its Algorithm are those of the default
// size. Group k holds ranks k * group_size and up.
struct GroupFamily {
  int (*default_size)(int rank_count) = nullptr;  // null: the algorithm is no family
  // Unsupported, with the reason, where there is no program; the others require Ok.
  Status (*check_size)(int rank_count, int group_size) = nullptr;
  AlgorithmCost (*cost)(int rank_count, int group_size) = nullptr;
  Result<Program> (*build)(int rank_count, int group_size) = nullptr;
  int64_t (*visit_traffic)(int rank_count, int group_size, const TrafficVisitor&) = nullptr;
};

// A program that was read from a file. What its proof says is known once it is proven, which is
// before a communicator of its rank count plans anything.
struct LoadedProgram {
  Program program;  // its name is what it is called here
  ProgramUse use = {};
  XmlDialect dialect = XmlDialect::Mccl;
  std::string file = {};               // as messages call it
  AlgorithmCost cost = {};             // measured: planner/measured_cost.h
  bool is_direct = false;              // ProgramShape::is_direct
  bool reduces_in_rank_order = false;  // as of Algorithm; of its proof, like the next
  bool is_bitwise_equal = true;        // false: ranks add in different orders
};

struct Algorithm {
  std::string_view name;  // "all_reduce_ring"
  Collective collective;
  std::string_view reference;  // author and year
  int rank_count_max;
  // Channel sets: consecutive operations rotate over so many sets of streams (law L2).
  int channel_sets;
  // Every output is one left fold of the inputs in rank order, rounded once, as `fold` makes it
  // (admitted under canonical determinism); a chain of reduces rounds at every hop and is not. The
  // prover checks the claim. True where nothing is reduced.
  bool reduces_in_rank_order;
  // It forwards blocks of others, whose lengths a rank of an all_to_all cannot know: right only
  // when all are equal, and so only for who asks for it by name.
  bool needs_equal_blocks = false;
  AlgorithmCost (*cost)(int rank_count);
  Result<Program> (*build)(int rank_count);  // 1 <= rank_count <= rank_count_max
  // Optional: what travels between which ranks; the number of chunks in S. Null: the planner takes
  // it that every byte may pass an uplink.
  int64_t (*visit_traffic)(int rank_count, const TrafficVisitor&) = nullptr;
  GroupFamily groups = {};  // of a family only
  // From a file: serves exactly its own rank count, and the other functions are null. Not owned.
  const LoadedProgram* loaded = nullptr;
};

// What a plan names: an algorithm, and of a family the size of the groups.
struct ProgramChoice {
  const Algorithm* algorithm = nullptr;  // lives for ever
  int group_size = 0;                    // 0: no family
  bool operator==(const ProgramChoice&) const = default;
};

// The algorithm, and its default group size if it is a family.
ProgramChoice default_program(const Algorithm& algorithm, int rank_count);

// "all_reduce_ring", "all_reduce_two_level_ring:20".
std::string to_string(const ProgramChoice& choice);

// Inverse of to_string. Its algorithm is null where `algorithms` has none of that name, a family
// comes without a size, or another algorithm with one. Says nothing about rank counts.
ProgramChoice find_choice(std::string_view name, std::span<const Algorithm* const> algorithms);

// Unsupported, with the reason, when the choice has no program for so many ranks.
Status check_rank_count(const ProgramChoice& choice, int rank_count);

// For rank counts that check_rank_count() admits.
AlgorithmCost program_cost(const ProgramChoice& choice, int rank_count);
Result<Program> build_program(const ProgramChoice& choice, int rank_count);

// In catalogue order, which is also the order of ties. Pointers live for ever.
std::span<const Algorithm* const> catalog();

// The algorithm of a program from a file; refers to `loaded`, which outlives it.
Algorithm loaded_algorithm(const LoadedProgram& loaded);

// Null when there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace mccl
