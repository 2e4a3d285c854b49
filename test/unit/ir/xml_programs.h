// Programs, and their texts, that several XML tests use.
#pragma once

#include <string_view>

#include "base/prng.h"
#include "mccl/program.h"

namespace mccl {

// A ring all-reduce of two ranks and two chunks: one lane per rank, no dependences.
Program make_two_rank_ring();

// Its canonical texts, written by hand.
extern const std::string_view kTwoRankRingText;
extern const std::string_view kTwoRankRingMscclText;

// A program that has a text, is otherwise meaningless, and uses everything there is. Without fold
// it can be said in MSCCL's dialect too.
Program make_random_program(Prng* prng, bool has_fold);

}  // namespace mccl
