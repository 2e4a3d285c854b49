#include "dump/wait_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccl {
namespace {

using testing::ElementsAre;

// Processes "p0", "p1", ... on hosts "h0", ...; each communicator has the ranks of `processes`.
DumpedCommunicator communicator(const std::string& id, const std::vector<int>& processes, int rank,
                                uint64_t posted, std::vector<DumpedCall> calls) {
  DumpedCommunicator made;
  made.id = id;
  made.name = "group " + id;
  made.rank = rank;
  for (const int process : processes)
    made.members.push_back(
        {"h" + std::to_string(process), 100 + process, "p" + std::to_string(process)});
  made.posted_count = posted;
  made.completed_count = posted;
  made.calls = std::move(calls);
  return made;
}

DumpedProcess process(int number, std::vector<DumpedCommunicator> communicators) {
  DumpedProcess made;
  made.process = "p" + std::to_string(number);
  made.host = "h" + std::to_string(number);
  made.pid = 100 + number;
  made.time = "2026-01-01T00:00:00.000000Z";
  made.communicators = std::move(communicators);
  return made;
}

DumpedCall call(uint64_t sequence, const std::string& state, std::vector<int> waits_for = {}) {
  DumpedCall made;
  made.sequence = sequence;
  made.call = "barrier()";
  made.state = state;
  made.waits_for = std::move(waits_for);
  return made;
}

std::vector<std::string> texts(const CommunicatorReport& report) {
  std::vector<std::string> list;
  for (const MissingCall& missing : report.missing) list.push_back(to_text(missing));
  for (const MissingMessage& missing : report.messages) list.push_back(to_text(missing));
  return list;
}

const std::vector<int> kThree = {0, 1, 2};

TEST(WaitReport, NamesWhoHasNotMadeTheCallThatOthersWaitFor) {
  const WaitReport report =
      make_wait_report({process(0, {communicator("a", kThree, 0, 42, {call(41, "running", {1})})}),
                        process(1, {communicator("a", kThree, 1, 42, {call(41, "running", {2})})}),
                        process(2, {communicator("a", kThree, 2, 41, {call(40, "complete")})})});
  ASSERT_EQ(report.communicators.size(), 1u);
  const CommunicatorReport& one = report.communicators[0];
  EXPECT_THAT(
      texts(one),
      ElementsAre("rank 2 has not made operation 41, barrier(), which ranks 0, 1 wait for"));
  EXPECT_EQ(one.rows[0].call, "41 barrier()");
  EXPECT_EQ(one.rows[0].state, "running");
  EXPECT_EQ(one.rows[0].waits_for, "rank 1");
  EXPECT_EQ(one.rows[2].call, "40 barrier()");
  EXPECT_EQ(one.rows[2].host, "h2");
  EXPECT_TRUE(report.is_anybody_behind());
  EXPECT_TRUE(report.circle.empty());
}

TEST(WaitReport, NobodyIsBehindInACallThatAllHaveMade) {
  const WaitReport report =
      make_wait_report({process(0, {communicator("a", {0, 1}, 0, 5, {call(4, "running", {1})})}),
                        process(1, {communicator("a", {0, 1}, 1, 6, {call(5, "complete")})})});
  EXPECT_FALSE(report.is_anybody_behind());
}

TEST(WaitReport, TheFirstMissingCallCounts) {
  const WaitReport report = make_wait_report(
      {process(0, {communicator("a", kThree, 0, 9, {call(8, "running")})}),
       process(1, {communicator("a", kThree, 1, 9, {call(7, "running"), call(8, "running")})}),
       process(2, {communicator("a", kThree, 2, 7, {})})});
  EXPECT_THAT(texts(report.communicators[0]),
              ElementsAre("rank 2 has not made operation 7, barrier(), which rank 1 waits for"));
}

TEST(WaitReport, SaysWhereADumpIsMissing) {
  DumpedCall failed = call(1, "failed", {1});
  failed.failed_in = "running";
  DumpedCommunicator own = communicator("a", {0, 1}, 0, 2, {call(0, "complete"), failed});
  own.failure = "peer lost: lost rank 1";
  const WaitReport report = make_wait_report({process(0, {own})});
  EXPECT_THAT(texts(report.communicators[0]),
              ElementsAre("rank 0 waits for rank 1, of which there is no dump, in operation 1, "
                          "barrier()"));
  EXPECT_EQ(report.communicators[0].rows[0].state, "failed, was running");
  EXPECT_EQ(report.communicators[0].rows[0].failure, "peer lost: lost rank 1");
  EXPECT_FALSE(report.communicators[0].rows[1].has_dump);
  EXPECT_EQ(report.communicators[0].rows[1].pid, 101);
}

TEST(WaitReport, FindsACircleThroughCommunicators) {
  const WaitReport report =
      make_wait_report({process(0, {communicator("a", {0, 1}, 0, 1, {call(0, "running", {1})}),
                                    communicator("b", {0, 2}, 0, 0, {})}),
                        process(1, {communicator("a", {0, 1}, 1, 0, {}),
                                    communicator("c", {1, 2}, 0, 4, {call(3, "running", {1})})}),
                        process(2, {communicator("b", {0, 2}, 1, 1, {call(0, "running", {0})}),
                                    communicator("c", {1, 2}, 1, 3, {})})});
  EXPECT_THAT(report.circle,
              ElementsAre("host h0, pid 100 waits in group a, operation 0, barrier(), for rank 1 "
                          "(host h1, pid 101), which has not made it",
                          "host h1, pid 101 waits in group c, operation 3, barrier(), for rank 1 "
                          "(host h2, pid 102), which has not made it",
                          "host h2, pid 102 waits in group b, operation 0, barrier(), for rank 0 "
                          "(host h0, pid 100), which has not made it"));
}

TEST(WaitReport, FindsACircleOfReceives) {
  DumpedCommunicator first = communicator("a", {0, 1}, 0, 0, {});
  DumpedCommunicator second = communicator("a", {0, 1}, 1, 0, {});
  DumpedMessage receive;
  receive.state = "waits for peer";
  receive.tag = 3;
  receive.peer = 1;
  first.messages = {receive};
  receive.peer = 0;
  second.messages = {receive};
  const WaitReport report = make_wait_report({process(0, {first}), process(1, {second})});
  EXPECT_THAT(texts(report.communicators[0]),
              ElementsAre("rank 0 waits for a message with tag 3 from rank 1",
                          "rank 1 waits for a message with tag 3 from rank 0"));
  EXPECT_EQ(report.circle.size(), 2u);
  EXPECT_TRUE(report.is_anybody_behind());
}

TEST(WaitReport, OfTwoDumpsOfAProcessTheLaterOneCounts) {
  DumpedProcess early = process(0, {communicator("a", {0}, 0, 1, {call(0, "running")})});
  DumpedProcess late = process(0, {communicator("a", {0}, 0, 2, {call(1, "complete")})});
  late.time = "2026-01-01T00:00:01.000000Z";
  const WaitReport report = make_wait_report({late, early});
  EXPECT_EQ(report.communicators[0].rows[0].posted_count, 2u);
}

TEST(DumpReader, RefusesWhatIsNoDump) {
  EXPECT_EQ(parse_dump("{}", "x.json").status().message(), "x.json: is no dump of mccl");
  EXPECT_EQ(parse_dump("[1, ", "x.json").status().message(), "x.json: is no dump of mccl");
  EXPECT_EQ(parse_dump(R"({"format": "mccl dump", "format_version": 2})", "x").status().message(),
            "x: has version 2 of the format, 1 is read; use the mccl that wrote it");
  EXPECT_EQ(parse_dump(R"({"format": "mccl dump", "format_version": 1,
                           "communicators": [{"id": "a", "rank": 7, "members": [{}]}]})",
                       "x")
                .status()
                .message(),
            "x: communicator a has 1 members and is of rank 7");
}

TEST(DumpReader, TakesHalfADumpAndIgnoresOddTypes) {
  const Result<DumpedProcess> process = parse_dump(
      R"({"format": "mccl dump", "format_version": 1, "pid": "many", "communicators": [3,
          {"id": 5, "rank": 0, "members": [{"pid": 1.5}], "operations": [{"waits_for": 1}, 2]}]})",
      "x");
  ASSERT_EQ(process.status().to_string(), "ok");
  EXPECT_EQ(process.value().pid, 0);
  ASSERT_EQ(process.value().communicators.size(), 1u);
  EXPECT_EQ(process.value().communicators[0].calls.size(), 1u);
}

}  // namespace
}  // namespace mccl
