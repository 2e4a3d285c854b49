#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"
#include "verify/verify.h"

namespace mccl {
namespace {

Program make_pair(int chunk_span) {
  ProgramBuilder builder("pair", Collective::AllReduce, 2, chunk_span);
  builder.reduce(builder.input(0, 0, chunk_span), builder.input(1, 0, chunk_span),
                 builder.output(1, 0, chunk_span));
  builder.copy(builder.output(1, 0, chunk_span), builder.scratch(0, 0, chunk_span));
  builder.copy(builder.scratch(0, 0, chunk_span), builder.output(0, 0, chunk_span),
               {.send_lane = 9});
  return builder.lower().value();
}

TEST(Replicate, CutsEveryChunkIntoOnePerInstance) {
  const Program copies = replicate(make_pair(1), 2).value();
  EXPECT_EQ(copies.chunk_count, 2);
  EXPECT_EQ(copies.ranks[0].scratch_chunk_count, 2);
  EXPECT_EQ(rank_text(copies, 0),
            "rank 0 lane 0 step 0: send <- input[0] -> message to 1 on channel 0\n"
            "rank 0 lane 1 step 0: send <- input[1] -> message to 1 on channel 1\n"
            "rank 0 lane 2 step 0: recv scratch[0] <- message from 1 on channel 0\n"
            "rank 0 lane 3 step 0: recv scratch[1] <- message from 1 on channel 1\n"
            "rank 0 lane 4 step 0: copy output[0] <- scratch[0] (after 0.0) (after 2.0)\n"
            "rank 0 lane 5 step 0: copy output[1] <- scratch[1] (after 1.0) (after 3.0)\n");
  EXPECT_EQ(verify(copies).to_string(), "");
}

TEST(Replicate, KeepsAProgramForOneInstance) {
  const Program program = make_pair(1);
  EXPECT_EQ(replicate(program, 1).value(), program);
}

TEST(Replicate, RefusesStepsOverSeveralChunks) {
  const Result<Program> copies = replicate(make_pair(2), 2);
  EXPECT_EQ(copies.status().to_string(),
            "unsupported: pair has a step over several chunks, which cannot be replicated: rank 0 "
            "lane 0 step 0: send <- input[0..2) -> message to 1 on channel 0");
}

TEST(Replicate, RefusesInstanceCountsBelowOneAndBeyondTheChannels) {
  EXPECT_EQ(replicate(make_pair(1), 0).status().message(), "0 instances of pair");
  EXPECT_EQ(replicate(make_pair(1), 1025).status().message(),
            "1025 instances of pair, which uses 1 channels, need more than 1024 channels");
}

}  // namespace
}  // namespace mccl
