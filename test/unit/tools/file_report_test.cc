// What `mccl check` compares and what `mccl show` counts.
#include "check/file_report.h"

#include <gtest/gtest.h>

#include "show/program_summary.h"
#include "support/program_fixtures.h"

namespace mccl {
namespace {

FileReport report_of(const Program& program) {
  return make_file_report(write_xml(program, XmlDialect::Mccl).value(), XmlTarget::Mccl);
}

std::string comparison(const Program& one, const Program& other) {
  return compare(report_of(one), report_of(other)).text;
}

TEST(Compare, ProgramsThatDifferInTheirNameAloneAreEqual) {
  Program renamed = make_ring_all_reduce(3);
  renamed.name = "other";
  EXPECT_EQ(comparison(make_ring_all_reduce(3), make_ring_all_reduce(3)), "the same program");
  EXPECT_EQ(comparison(make_ring_all_reduce(3), renamed), "the same program but for its name");
}

TEST(Compare, OtherStepsMayGiveTheSameBits) {
  // With two ranks every order is the same.
  EXPECT_EQ(comparison(make_ring_all_reduce(2), make_all_pairs_all_reduce(2)),
            "the same bits by other steps");
  EXPECT_EQ(comparison(make_ring_all_reduce(2), make_recursive_doubling_all_reduce(2)),
            "the same bits by other steps");
  EXPECT_EQ(comparison(make_ring_all_reduce(3), make_all_pairs_all_reduce(3)),
            "other bits: output chunk 0 of 3 and chunk 0 of 3 are reduced in different orders");
}

TEST(Compare, ChunksOfAnotherSizeAreComparedWhereTheyOverlap) {
  EXPECT_EQ(comparison(make_ring_all_gather(3, 1), make_ring_all_gather(3, 2)),
            "the same bits by other steps");
  EXPECT_EQ(comparison(make_ring_all_reduce(4), make_recursive_doubling_all_reduce(4)),
            "other bits: output chunk 0 of 4 and chunk 0 of 1 are reduced in different orders");
}

TEST(Compare, NothingIsSaidAboutWhatIsNotProven) {
  Program wrong = make_ring_all_reduce(2);
  wrong.ranks[0].lanes[0].steps.pop_back();
  EXPECT_EQ(compare(report_of(wrong), report_of(wrong)).sameness, Sameness::Unknown);
  EXPECT_EQ(comparison(make_ring_all_reduce(2), make_ring_all_reduce(3)),
            "another call: all_reduce among 2, and all_reduce among 3");
}

TEST(Report, ATextInOurDialectHasPlacesToo) {
  Program wrong = make_ring_all_reduce(2);
  wrong.ranks[1].lanes[0].steps.pop_back();
  EXPECT_EQ(to_string(report_of(wrong), "f"),
            "f:5:7: pairing: stream from rank 0 to rank 1 on channel 0: rank 0 lane 0 sends 2 "
            "messages, rank 1 lane 0 receives 1 message\n");
}

TEST(Summary, CountsWhatIsThere) {
  const Program program = make_all_pairs_all_reduce(4);
  const ProgramSummary summary = summarize(program, {.end_bytes = 1001});
  EXPECT_EQ(summary.lanes, 28);
  EXPECT_EQ(summary.lanes_of_rank, 7);
  EXPECT_EQ(summary.size_chunks, 4);
  EXPECT_EQ(summary.largest_count, 1);
}

TEST(Summary, ScratchIsAShareOfTheLargestCall) {
  Program program = make_ring_all_reduce(2);
  program.chunk_count = 64;
  program.ranks[1].scratch_chunk_count = 56;
  EXPECT_EQ(summarize(program, {.end_bytes = 65537}).scratch_bytes, 57344);
  EXPECT_EQ(summarize(program, {.end_bytes = 2}).scratch_bytes, 1);
  EXPECT_EQ(summarize(program, {}).scratch_bytes, -1);
  EXPECT_EQ(summarize(program, {.end_bytes = ProgramUse::kEndless - 1}).scratch_bytes,
            8070450532247928830);
  EXPECT_EQ(summarize(make_ring_all_reduce(2), {}).scratch_bytes, 0);
}

TEST(Summary, ListsTheStepsOfARankWithWhatTheyWaitFor) {
  Program program = make_ring_all_reduce(2);
  program.ranks[1].lanes.push_back(
      {-1, -1, 3, {{Opcode::Copy, {input_span(1, 0)}, {output_span(1, 0)}, {{0, 0}, {0, 1}}}}});
  EXPECT_EQ(list_steps(program, 1),
            "rank 1 lane 0, sends to 0, receives from 0, channel 0\n"
            "  step 0: send <- input[1] -> message to 0 on channel 0\n"
            "  step 1: recv_reduce_copy_send output[0] <- message from 0, input[0] -> message to 0 "
            "on channel 0\n"
            "  step 2: recv output[1] <- message from 0 on channel 0\n"
            "rank 1 lane 1, channel 3\n"
            "  step 0: copy output[0] <- input[0], after lane 0 step 0 and lane 0 step 1\n");
}

TEST(Words, SayWhatAFileIsMeantFor) {
  EXPECT_EQ(describe_window({}), "any size");
  EXPECT_EQ(describe_window({.begin_bytes = 4096}), "4096 bytes and more");
  EXPECT_EQ(describe_window({.begin_bytes = 65537, .end_bytes = 524288}), "65537 to 524287 bytes");
}

}  // namespace
}  // namespace mccl
