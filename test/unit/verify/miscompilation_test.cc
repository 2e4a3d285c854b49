// Lowered programs as a faulty compiler makes them: each does something else than its author wrote,
// and each must be refused. The kinds are those that MSCCL's published compiler is known for.
#include <gtest/gtest.h>

#include "support/program_fixtures.h"
#include "verify/verify.h"

namespace mccl {
namespace {

Program make_empty(Collective collective, int rank_count, int chunk_count) {
  Program program;
  program.name = "miscompiled";
  program.collective = collective;
  program.chunk_count = chunk_count;
  program.ranks.resize(static_cast<size_t>(rank_count));
  return program;
}

// Rank 0 sends its input by way of its scratch; rank 1 reduces and sends the sum back.
Program make_reduce_from_scratch(Span local_operand) {
  Program program = make_empty(Collective::AllReduce, 2, 1);
  program.ranks[0].scratch_chunk_count = 1;
  program.ranks[1].scratch_chunk_count = 1;
  program.ranks[0].lanes = {{1,
                             1,
                             0,
                             {{Opcode::Copy, {input_span(0, 0)}, {scratch_span(0, 0)}, {}},
                              {Opcode::Send, {scratch_span(0, 0)}, {}, {}},
                              {Opcode::Recv, {}, {output_span(0, 0)}, {}}}}};
  program.ranks[1].lanes = {
      {0, 0, 0, {{Opcode::RecvReduceCopySend, {local_operand}, {output_span(1, 0)}, {}}}}};
  return program;
}

TEST(Miscompilation, ReducingWithTheLocalSlotOfTheSendersNameIsRefused) {
  EXPECT_EQ(verify(make_reduce_from_scratch(input_span(1, 0))).to_string(), "");
  const Verdict verdict = verify(make_reduce_from_scratch(scratch_span(1, 0)));
  ASSERT_FALSE(verdict.is_proven());
  EXPECT_EQ(verdict.findings[0].rule, Rule::Unwritten);
  EXPECT_EQ(verdict.findings[0].text,
            "rank 1 lane 0 step 0 reads scratch[0], to which nothing was written");
}

TEST(Miscompilation, ForwardingWhatWasReceivedInsteadOfAShiftedSpanIsRefused) {
  // Receive [0, 2), then send [1, 3) to a peer's [1, 3): one fused step forwards [0, 2).
  Program program = make_empty(Collective::Broadcast, 3, 3);
  program.ranks[0].lanes = {
      {-1, -1, 0, {{Opcode::Copy, {input_span(0, 0, 3)}, {output_span(0, 0, 3)}, {}}}},
      {1, -1, 0, {{Opcode::Send, {input_span(0, 0, 2)}, {}, {}}}},
      {1, -1, 1, {{Opcode::Send, {input_span(0, 2)}, {}, {}}}},
      {2, -1, 0, {{Opcode::Send, {input_span(0, 0)}, {}, {}}}}};
  program.ranks[1].lanes = {{2, 0, 0, {{Opcode::RecvCopySend, {}, {output_span(1, 0, 2)}, {}}}},
                            {-1, 0, 1, {{Opcode::Recv, {}, {output_span(1, 2)}, {}}}}};
  program.ranks[2].lanes = {{-1, 1, 0, {{Opcode::Recv, {}, {output_span(2, 1, 2)}, {}}}},
                            {-1, 0, 0, {{Opcode::Recv, {}, {output_span(2, 0)}, {}}}}};
  const Verdict verdict = verify(program);
  ASSERT_EQ(verdict.findings.size(), 2u) << verdict.to_string();
  EXPECT_EQ(verdict.findings[0].rule, Rule::Origins);
  EXPECT_EQ(verdict.findings[0].text,
            "rank 2 lane 0 step 0 writes chunk 0 to output[1], which has room for chunk 1");
}

TEST(Miscompilation, FusingAwayAStoreThatIsReadOnlyInPartIsRefused) {
  // The sum of both chunks goes on by recv_reduce_send, but only chunk 0 comes back.
  Program program = make_empty(Collective::AllReduce, 2, 2);
  program.ranks[0].lanes = {{1,
                             1,
                             0,
                             {{Opcode::Send, {input_span(0, 0, 2)}, {}, {}},
                              {Opcode::Recv, {}, {output_span(0, 0, 2)}, {}},
                              {Opcode::Send, {output_span(0, 0)}, {}, {}}}}};
  program.ranks[1].lanes = {{0,
                             0,
                             0,
                             {{Opcode::RecvReduceSend, {input_span(1, 0, 2)}, {}, {}},
                              {Opcode::Recv, {}, {output_span(1, 0)}, {}}}}};
  const Verdict verdict = verify(program);
  ASSERT_EQ(verdict.findings.size(), 2u) << verdict.to_string();
  EXPECT_EQ(verdict.findings[0].text, "rank 1: output[1] is never written");
  EXPECT_EQ(verdict.findings[1].text, "rank 1: output[1] lacks rank 0's contribution");
  EXPECT_TRUE(verdict.findings[1].in_place);
}

TEST(Miscompilation, StoringAtTheOffsetOfAnotherRankIsRefused) {
  // Rank 1 keeps its partial sum in scratch[0] and should receive into scratch[1].
  const auto make = [](int slot) {
    Program program = make_empty(Collective::AllReduce, 3, 1);
    program.ranks[1].scratch_chunk_count = 2;
    program.ranks[0].lanes = {{1,
                               1,
                               0,
                               {{Opcode::Send, {input_span(0, 0)}, {}, {}},
                                {Opcode::Recv, {}, {output_span(0, 0)}, {}}}}};
    program.ranks[2].lanes = program.ranks[0].lanes;
    for (Span* span : {&program.ranks[2].lanes[0].steps[0].sources[0],
                       &program.ranks[2].lanes[0].steps[1].destinations[0]})
      span->rank = 2;
    program.ranks[1].lanes = {
        {0,
         0,
         0,
         {{Opcode::RecvReduceCopy, {input_span(1, 0)}, {scratch_span(1, 0)}, {}},
          {Opcode::Send, {output_span(1, 0)}, {}, {{1, 1}}}}},
        {2,
         2,
         0,
         {{Opcode::Recv, {}, {scratch_span(1, slot)}, {{0, 0}}},
          {Opcode::Fold, {scratch_span(1, 0), scratch_span(1, slot)}, {output_span(1, 0)}, {}},
          {Opcode::Send, {output_span(1, 0)}, {}, {}}}}};
    return program;
  };
  EXPECT_EQ(verify(make(1)).to_string(), "");
  const Verdict verdict = verify(make(0));
  ASSERT_EQ(verdict.findings.size(), 3u);
  EXPECT_EQ(verdict.findings[0].text,
            "rank 0: output[0] holds rank 2's contribution more than once");
}

TEST(Miscompilation, ADependenceThatGotLostIsRefused) {
  // For every dependence of every fixture: without it the program is not proven.
  for (const ProgramFixture& fixture : program_fixtures()) {
    const Program good = fixture.make(4);
    for (size_t rank = 0; rank < good.ranks.size(); ++rank)
      for (size_t lane = 0; lane < good.ranks[rank].lanes.size(); ++lane)
        for (size_t step = 0; step < good.ranks[rank].lanes[lane].steps.size(); ++step) {
          Program bad = good;
          auto& dependences = bad.ranks[rank].lanes[lane].steps[step].dependences;
          if (dependences.empty()) continue;
          dependences.erase(dependences.begin());
          EXPECT_FALSE(verify(bad).is_proven())
              << fixture.name << " rank " << rank << " lane " << lane << " step " << step;
        }
  }
}

TEST(Miscompilation, TwoLanesOnOneConnectionAreRefused) {
  Program program = make_binomial_broadcast(2, 2);
  Lane& lane = program.ranks[0].lanes[1];
  lane.steps = {{Opcode::Send, {output_span(0, 0)}, {}, {{0, 0}}}};
  Lane second = lane;
  second.steps[0].sources[0].index = 1;
  program.ranks[0].lanes.push_back(second);
  EXPECT_EQ(verify(program).findings.at(0).rule, Rule::Structure);
}

TEST(Miscompilation, AReceiveOnTheNextChannelIsRefused) {
  Program program = make_ring_all_reduce(3);
  program.ranks[1].lanes[0].channel = 1;
  EXPECT_EQ(verify(program).findings.at(0).rule, Rule::Pairing);
}

TEST(Miscompilation, AWaitThatMovedAheadOfTheSendItNeedsIsRefused) {
  // Reduce, send, reduce again with the reply; the wait for the reply belongs to the last step.
  const auto make = [](bool is_moved) {
    Program program = make_empty(Collective::AllReduce, 2, 1);
    program.ranks[0].scratch_chunk_count = 2;
    program.ranks[0].lanes = {
        {1,
         -1,
         0,
         {{Opcode::Copy, {input_span(0, 0)}, {scratch_span(0, 1)}, {}},
          {Opcode::Send, {input_span(0, 0)}, {}, {}},
          {Opcode::Fold, {scratch_span(0, 1), scratch_span(0, 0)}, {output_span(0, 0)}, {}}}},
        {-1, 1, 0, {{Opcode::Recv, {}, {scratch_span(0, 0)}, {}}}}};
    program.ranks[0].lanes[0].steps[is_moved ? 0 : 2].dependences = {{1, 0}};
    program.ranks[1].scratch_chunk_count = 1;
    program.ranks[1].lanes = {
        {0,
         0,
         0,
         {{Opcode::Recv, {}, {scratch_span(1, 0)}, {}},
          {Opcode::Send, {input_span(1, 0)}, {}, {}},
          {Opcode::Fold, {input_span(1, 0), scratch_span(1, 0)}, {output_span(1, 0)}, {}}}}};
    return program;
  };
  EXPECT_EQ(verify(make(false)).to_string(), "");
  EXPECT_EQ(verify(make(true)).findings.at(0).rule, Rule::Deadlock);
}

}  // namespace
}  // namespace mccl
