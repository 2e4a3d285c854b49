#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"
#include "verify/verify.h"

namespace mccl {
namespace {

// Rank 1 reduces `chunk_span` neighbouring chunks and gives them back through scratch.
ProgramBuilder make_pair(int chunk_span) {
  ProgramBuilder builder("pair", Collective::AllReduce, 2, chunk_span);
  builder.reduce(builder.input(0, 0, chunk_span), builder.input(1, 0, chunk_span),
                 builder.output(1, 0, chunk_span));
  builder.copy(builder.output(1, 0, chunk_span), builder.scratch(0, 0, chunk_span));
  builder.copy(builder.scratch(0, 0, chunk_span), builder.output(0, 0, chunk_span),
               {.send_lane = 9});
  return builder;
}

TEST(Instances, CutEveryChunkIntoOnePerInstance) {
  ProgramBuilder builder = make_pair(1);
  builder.set_instances(2);
  const Program copies = builder.lower().value();
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

TEST(Instances, AreTheProgramWhenThereIsOne) {
  ProgramBuilder builder = make_pair(1);
  builder.set_instances(1, InstanceLayout::Blocks);
  EXPECT_EQ(builder.lower().value(), make_pair(1).lower().value());
}

TEST(Instances, TakePartsOfBlocksWhereThatKeepsSpansWhole) {
  ProgramBuilder builder = make_pair(3);
  builder.set_instances(2, InstanceLayout::Interleaved);
  const Program copies = builder.lower().value();
  EXPECT_EQ(rank_text(copies, 0),
            "rank 0 lane 0 step 0: send <- input[0..3) -> message to 1 on channel 0\n"
            "rank 0 lane 1 step 0: send <- input[3..6) -> message to 1 on channel 1\n"
            "rank 0 lane 2 step 0: recv scratch[0..3) <- message from 1 on channel 0\n"
            "rank 0 lane 3 step 0: recv scratch[3..6) <- message from 1 on channel 1\n"
            "rank 0 lane 4 step 0: copy output[0..3) <- scratch[0..3) (after 0.0) (after 2.0)\n"
            "rank 0 lane 5 step 0: copy output[3..6) <- scratch[3..6) (after 1.0) (after 3.0)\n");
  EXPECT_EQ(verify(copies).to_string(), "");
}

TEST(Instances, TakeTheAskedLayoutWhereSpansAreWholeInBoth) {
  ProgramBuilder builder("two", Collective::AllReduce, 1, 2);
  builder.copy(builder.input(0, 0), builder.output(0, 0));
  builder.copy(builder.input(0, 1), builder.output(0, 1));
  builder.set_instances(2, InstanceLayout::Blocks);
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: copy output[0] <- input[0]\n"
            "rank 0 lane 1 step 0: copy output[2] <- input[2]\n"
            "rank 0 lane 2 step 0: copy output[1] <- input[1]\n"
            "rank 0 lane 3 step 0: copy output[3] <- input[3]\n");
}

// A span over two blocks is whole under neither layout.
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
    builder.set_instances(3, layout);
    const Program copies = builder.lower().value();
    EXPECT_EQ(copies.chunk_count, 3);
    EXPECT_EQ(verify(copies).to_string(), "");
  }
}

TEST(Instances, OfACustomCollectiveKeepItsContract) {
  // Rank 1 gets rank 0's two chunks, once in their order and once turned round.
  const std::vector<std::vector<Contribution>> in_order = {{{0, 0}}, {{0, 1}}};
  const std::vector<std::vector<Contribution>> turned = {{{0, 1}}, {{0, 0}}};
  for (const bool is_in_order : {true, false}) {
    ProgramBuilder builder("next", {{2, {}}, {0, is_in_order ? in_order : turned}});
    if (is_in_order) {
      builder.copy(builder.input(0, 0, 2), builder.output(1, 0, 2));
    } else {
      builder.copy(builder.input(0, 0, 2), builder.scratch(1, 0, 2));
      builder.copy(builder.scratch(1, 0), builder.output(1, 1));
      builder.copy(builder.scratch(1, 1), builder.output(1, 0));
    }
    builder.set_instances(2);
    const Program copies = builder.lower().value();
    EXPECT_EQ(copies.contract[0].input_chunk_count, 4);
    EXPECT_EQ(copies.contract[1].outputs[1], (std::vector<Contribution>{{0, is_in_order ? 1 : 3}}));
    EXPECT_EQ(copies.ranks[0].lanes[0].steps[0].sources[0].count, is_in_order ? 2 : 1);
    EXPECT_EQ(verify(copies).to_string(), "");
  }
}

TEST(Instances, AreRefusedBeyondTheChannels) {
  ProgramBuilder builder = make_pair(1);
  builder.set_instances(1025);
  EXPECT_EQ(builder.lower().status().message(),
            "pair: 1025 instances need 1025 channels, more than 1024");
}

TEST(Instances, AreRefusedBeyondTheChunks) {
  ProgramBuilder builder = make_pair(1);
  builder.set_instances((1 << 20) + 1);
  EXPECT_EQ(builder.lower().status().message(),
            "pair: 1048577 instances need 1048577 chunks in a buffer, more than 1048576");
}

TEST(StepLines, NameTheStatementOfEveryStep) {
  ProgramBuilder builder("pair", Collective::AllReduce, 2, 1);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(1, 0), {}, {"a.py", 3});
  builder.copy(builder.output(1, 0), builder.output(0, 0), {}, {"a.py", 4});
  builder.set_instances(2);
  EXPECT_TRUE(builder.step_lines().empty());
  const Program program = builder.lower().value();
  const StepLines& lines = builder.step_lines();
  ASSERT_EQ(lines.size(), 2u);
  ASSERT_EQ(lines[0].size(), 2u);  // one lane of each instance: both halves of the exchange
  EXPECT_EQ(lines[0][1][0].line, 3);
  EXPECT_EQ(lines[0][1][1].line, 4);
  EXPECT_EQ(lines[1][0][0].line, 3);  // received, reduced and given back
}

}  // namespace
}  // namespace mccl
