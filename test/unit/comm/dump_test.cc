#include "comm/dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/wall_time.h"
#include "comm/endpoint_core.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

using Json = nlohmann::json;
using Works = std::vector<std::shared_ptr<Work>>;

class DumpTest : public testing::Test {
 protected:
  std::shared_ptr<Work> all_reduce(int rank, std::vector<float>& data) {
    return group_.communicator(rank)
        .all_reduce(data.data(), data.data(), static_cast<int64_t>(data.size()), DataType::Float32,
                    ReduceOp::Sum)
        .value();
  }
  Json dump(int rank) {
    return Json::parse(write_dump(group_.endpoint(rank).core().make_dump("call")));
  }
  Json communicator(int rank) { return dump(rank)["communicators"][0]; }

  SimGroup group_{2, {}};
  std::vector<float> mine_ = {1, 2}, theirs_ = {3, 4};
};

TEST_F(DumpTest, ShowsACallThatIsCompleteAndOneThatWaitsForARank) {
  ASSERT_TRUE(group_.run({all_reduce(0, mine_), all_reduce(1, theirs_)}));
  const std::shared_ptr<Work> open = all_reduce(0, mine_);
  EXPECT_FALSE(group_.run({open}));
  const Json own = communicator(0);
  EXPECT_EQ(own["operations_posted"], 2);
  EXPECT_EQ(own["operations_completed"], 1);
  EXPECT_EQ(own["failure"], nullptr);
  ASSERT_EQ(own["operations"].size(), 2u);
  const Json& complete = own["operations"][0];
  EXPECT_EQ(complete["sequence"], 0);
  EXPECT_EQ(complete["call"], "all_reduce(float32, sum, 2 elements)");
  EXPECT_EQ(complete["program"], "all_reduce_recursive_doubling");
  EXPECT_EQ(complete["bytes"], 8);
  EXPECT_EQ(complete["state"], "complete");
  EXPECT_EQ(complete["in_place"], true);
  EXPECT_FALSE(complete["ended_ns"].is_null());
  EXPECT_FALSE(complete.contains("waits_for"));
  const Json& waiting = own["operations"][1];
  EXPECT_EQ(waiting["state"], "running");
  EXPECT_EQ(waiting["ended_ns"], nullptr);
  EXPECT_EQ(waiting["waits_for"], Json({1}));
  EXPECT_EQ(waiting["peers"], Json({1}));
  EXPECT_EQ(communicator(1)["operations_posted"], 1);
}

TEST_F(DumpTest, SaysWhatWaitsForMemoryAndForNobodyElse) {
  const Works works = {all_reduce(0, mine_), all_reduce(0, mine_)};
  EXPECT_FALSE(group_.run(works));
  const Json second = communicator(0)["operations"][1];
  EXPECT_EQ(second["state"], "waits for memory");
  EXPECT_EQ(second["started_ns"], nullptr);
  EXPECT_EQ(second["waits"], "an earlier operation on the same memory");
  EXPECT_EQ(second["waits_for"], Json::array());
}

TEST_F(DumpTest, KeepsWhatAFailedCallWaitedFor) {
  ASSERT_TRUE(group_.run({all_reduce(0, mine_), all_reduce(1, theirs_)}));
  const std::shared_ptr<Work> lost = all_reduce(0, mine_);
  group_.destroy_communicator(1);
  ASSERT_TRUE(group_.run({lost}));
  ASSERT_EQ(lost->status().code(), StatusCode::PeerLost);
  const Json own = communicator(0);
  EXPECT_EQ(own["failure"]["code"], "peer lost");
  EXPECT_EQ(own["failure"]["message"], lost->status().message());
  EXPECT_EQ(own["members"][1]["has_left"], true);
  const Json& failed = own["operations"][1];
  EXPECT_EQ(failed["state"], "failed");
  EXPECT_EQ(failed["failed_in"], "running");
  EXPECT_EQ(failed["waits_for"], Json({1}));
  EXPECT_FALSE(failed["ended_ns"].is_null());
  EXPECT_EQ(dump(1)["communicators"], Json::array());
}

TEST_F(DumpTest, ShowsMessages) {
  const std::shared_ptr<Work> receive =
      group_.communicator(0).recv(mine_.data(), 2, DataType::Float32, 1, 7).value();
  EXPECT_FALSE(group_.run({receive}));
  const Json waiting = communicator(0)["messages"][0];
  EXPECT_EQ(waiting["kind"], "recv");
  EXPECT_EQ(waiting["peer"], 1);
  EXPECT_EQ(waiting["tag"], 7);
  EXPECT_EQ(waiting["bytes"], 8);
  EXPECT_EQ(waiting["state"], "waits for peer");
  const std::shared_ptr<Work> send =
      group_.communicator(1).send(theirs_.data(), 2, DataType::Float32, 0, 7).value();
  ASSERT_TRUE(group_.run({receive, send}));
  EXPECT_EQ(communicator(0)["messages"][0]["state"], "complete");
  EXPECT_EQ(communicator(1)["messages"][0]["kind"], "send");
}

TEST_F(DumpTest, NamesProcessMembersSettingsAndLinks) {
  ASSERT_TRUE(group_.run({all_reduce(0, mine_), all_reduce(1, theirs_)}));
  const Json process = dump(1);
  EXPECT_EQ(process["format"], "mccl dump");
  EXPECT_EQ(process["format_version"], 1);
  EXPECT_EQ(process["rank"], 1);
  EXPECT_EQ(process["cause"], "call");
  const Json& members = process["communicators"][0]["members"];
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1]["process"], process["process"]);
  EXPECT_EQ(members[0]["address"], "sim://0");
  ASSERT_EQ(process["links"].size(), 1u);
  EXPECT_EQ(process["links"][0]["process"], members[0]["process"]);
  EXPECT_EQ(process["links"][0]["is_connected"], true);
  EXPECT_GT(process["links"][0]["bytes_received"], 0);
  EXPECT_EQ(process["settings"].size(), settings().size());
  EXPECT_EQ(process["settings"][0]["name"], "MCCL_ALGO");
  EXPECT_EQ(process["settings"][0]["is_default"], true);
}

TEST(DumpText, HasALinePerOperation) {
  ProcessDump dump;
  CommunicatorDump communicator;
  communicator.title = "group \"0\"";
  communicator.ranks.resize(2);
  OperationRecord record;
  communicator.operations = {record, record, record};
  dump.communicators = {communicator};
  const std::string text = write_dump(dump);
  size_t count = 0;
  for (size_t at = text.find("\n    {\"sequence\""); at != std::string::npos;
       at = text.find("\n    {\"sequence\"", at + 1))
    ++count;
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(Json::parse(text)["communicators"][0]["name"], "group \"0\"");
}

TEST(WallTime, IsWrittenAsPeopleAndSortersReadIt) {
  EXPECT_EQ(write_wall_time(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(write_wall_time(1'000'000'000'000'042'000), "2001-09-09T01:46:40.000042Z");
}

}  // namespace
}  // namespace mccl
