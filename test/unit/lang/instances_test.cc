#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"
#include "verify/verify.h"

namespace mccl {
namespace {

ProgramBuilder make_pair(int chunk_span) {
  ProgramBuilder builder("pair", Collective::AllReduce, 2, chunk_span);
  builder.reduce(builder.input(0, 0, chunk_span), builder.input(1, 0, chunk_span),
                 builder.output(1, 0, chunk_span));
  builder.copy(builder.output(1, 0, chunk_span), builder.scratch(0, 0, chunk_span));
  builder.copy(builder.scratch(0, 0, chunk_span), builder.output(0, 0, chunk_span),
               {.send_lane = 9});
  return builder;
}

Program lower_with(ProgramBuilder builder, int instances, InstanceLayout layout) {
  builder.set_instances(instances, layout);
  return builder.lower().value();
}

TEST(Instances, CutEveryChunkIntoOnePerInstance) {
  const Program copies = lower_with(make_pair(1), 2, InstanceLayout::Interleaved);
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

TEST(Instances, OfOneAreTheProgramItself) {
  EXPECT_EQ(lower_with(make_pair(1), 1, InstanceLayout::Interleaved), make_pair(1).lower().value());
}

// Interleaved they would have to be cut: the other layout keeps them whole.
TEST(Instances, KeepSpansOverSeveralChunksWhole) {
  const Program copies = lower_with(make_pair(2), 2, InstanceLayout::Interleaved);
  EXPECT_EQ(copies, lower_with(make_pair(2), 2, InstanceLayout::Blocks));
  EXPECT_EQ(rank_text(copies, 0).substr(0, 159),
            "rank 0 lane 0 step 0: send <- input[0..2) -> message to 1 on channel 0\n"
            "rank 0 lane 1 step 0: send <- input[2..4) -> message to 1 on channel 1\n"
            "rank 0 lane 2 ste");
  EXPECT_EQ(verify(copies).to_string(), "");
}

// A span over two blocks is whole under neither.
TEST(Instances, CutSpansOverSeveralBlocks) {
  for (const InstanceLayout layout : {InstanceLayout::Interleaved, InstanceLayout::Blocks}) {
    ProgramBuilder builder("test", Collective::AllGather, 4, 1);
    for (int rank = 0; rank < 4; ++rank)
      builder.copy(builder.input(rank, 0), builder.output(rank, rank));
    for (int distance = 1; distance < 4; distance *= 2)
      for (int rank = 0; rank < 4; ++rank) {
        const int first = rank / distance * distance;
        builder.copy(builder.output(rank, first, distance),
                     builder.output(rank ^ distance, first, distance));
      }
    const Program copies = lower_with(std::move(builder), 3, layout);
    EXPECT_EQ(copies.chunk_count, 3);
    EXPECT_EQ(verify(copies).to_string(), "");
  }
}

TEST(Instances, BeyondTheChannelsAreRefused) {
  ProgramBuilder builder = make_pair(1);
  builder.set_instances(1025);
  EXPECT_EQ(builder.lower().status().message(),
            "pair: 1025 instances need 1025 channels, more than 1024");
}

}  // namespace
}  // namespace mccl
