// The first phase: shapes, bounds, peers and limits. Every later phase indexes without checking.
#pragma once

#include "mccl/program.h"
#include "verify/findings.h"

namespace mccl::judge {

// Limits of what is judged at all; each excess is a finding with both numbers.
constexpr int kRanksMax = 4096;
constexpr int kChannelMax = 1023;
constexpr int64_t kStepsMax = 10'000'000;
constexpr int64_t kChunksMax = 1 << 25;            // of all buffers of all ranks
constexpr int64_t kChunkAccessesMax = 64'000'000;  // chunks named by all spans, and dependences

// Adds a Structure finding for every fault, up to the limit of the list.
void check_structure(const Program& program, FindingList& findings);

// Chunks of each span of a step that passed check_structure(), and so of its message.
int step_chunk_count(const Step& step);

}  // namespace mccl::judge
