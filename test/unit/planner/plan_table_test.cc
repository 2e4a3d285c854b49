#include "planner/plan_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "literal_algorithms.h"
#include "planner/plan_table_text.h"
#include "planner/planner.h"

namespace mccl {
namespace {

using literal::kAll;

constexpr const char* kBody =
    "mccl-plan-table 1\n"
    "ranks 24\n"
    "profile paper\n"
    "costs 306000 306000 1238000000 0 5000\n"
    "portions 65536 65536 268435456\n"
    "uplinks 1\n"
    "switches 0*16 1*8\n"
    "algo ^all_pairs,all_gather_ring\n"
    "strict 0\n"
    "canonical 0\n"
    "fit auto\n"
    "protocols\n"
    "topology\n"
    "all_reduce 0 262145 all_reduce_recursive_doubling 786432 262144 65536 1 profile paper: above "
    "262144 bytes the ring, else recursive doubling; MCCL_ALGO=^all_pairs,all_gather_ring\n"
    "all_reduce 262145 max all_reduce_ring 458752 65536 65536 4 profile paper: above 262144 bytes "
    "the ring, else recursive doubling; MCCL_ALGO=^all_pairs,all_gather_ring\n"
    "all_gather none no program for all_gather may run: all_gather_ring: "
    "MCCL_ALGO=^all_pairs,all_gather_ring excludes it (would do: take its name out of "
    "MCCL_ALGO)\n";

std::string sealed(std::string body) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const uint32_t sum = fnv1a(body);
  body += "end ";
  for (int shift = 28; shift >= 0; shift -= 4) body += kDigits[(sum >> shift) & 15U];
  return body + "\n";
}

// The message for the table with `from` replaced by `to` and a checksum that fits.
std::string fault(std::string_view from, std::string_view to) {
  std::string body = kBody;
  const size_t at = body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  body.replace(at, from.size(), to);
  const Result<PlanTable> table = parse_plan_table(sealed(body), kAll);
  return table.is_ok() ? "no fault" : table.status().message();
}

TEST(PlanTableText, IsWhatTheHeaderOfTheFormatShows) {
  Topology topology = make_topology(24, 24);
  topology.switch_of_rank.assign(24, 1);
  std::fill_n(topology.switch_of_rank.begin(), 16, 0);
  const Result<PlanTable> table = build_plan_table(
      topology,
      {.profile = CostProfile::Paper, .algo = "^all_pairs, all_gather_ring", .uplink_ports = 1},
      kAll);
  ASSERT_TRUE(table.is_ok());
  EXPECT_EQ(write_plan_table(table.value()), sealed(kBody));
}

TEST(PlanTableText, ReadsBackWhatItWrote) {
  for (const CostProfile profile : {CostProfile::Auto, CostProfile::Paper})
    for (const char* algo : {"", "^ring", "all_pairs"})
      for (const int rank_count : {1, 2, 4, 24, 300}) {
        const Result<PlanTable> table = build_plan_table(make_topology(rank_count, 1),
                                                         {.profile = profile, .algo = algo}, kAll);
        ASSERT_TRUE(table.is_ok());
        const Result<PlanTable> read = parse_plan_table(write_plan_table(table.value()), kAll);
        ASSERT_TRUE(read.is_ok()) << read.status().to_string();
        EXPECT_EQ(read.value(), table.value());
      }
}

TEST(PlanTableText, ReportsTheLineAndTheFaultOfASetting) {
  EXPECT_EQ(fault("table 1", "table 2"), "plan table line 1: \"mccl-plan-table 1\" is missing");
  EXPECT_EQ(fault("ranks 24", "ranks 0"),
            "plan table line 2: rank count is 0, allowed are 1 to 1048576");
  EXPECT_EQ(fault("ranks 24", "ranks x"),
            "plan table line 2: rank count \"x\" is not a whole number");
  EXPECT_EQ(fault("profile paper", "profile auto"),
            "plan table line 3: no profile is called \"auto\"");
  EXPECT_EQ(fault("306000 306000", "306000 305999"),
            "plan table line 4: link costs: alpha_high_ns is 305999, allowed are 306000 to "
            "1000000000000");
  EXPECT_EQ(fault("portions 65536", "portions 65537"),
            "plan table line 5: slice 65537 is not a multiple of 64");
  EXPECT_EQ(fault("algo ^all", "algo ^bad"),
            "plan table line 8: MCCL_ALGO: no program is called \"bad_pairs\"; there are "
            "all_reduce_ring, all_reduce_recursive_doubling, all_reduce_all_pairs, "
            "all_gather_ring");
  EXPECT_EQ(fault("strict 0", "strict 2"), "plan table line 9: strict is 2, allowed are 0 to 1");
  EXPECT_EQ(fault("canonical 0\n", ""), "plan table line 10: \"fit\" where \"canonical\" belongs");
}

TEST(PlanTableText, ReportsTheFaultOfTheSwitches) {
  EXPECT_EQ(fault("uplinks 1", "uplinks 4097"),
            "plan table line 6: uplink ports is 4097, allowed are 0 to 4096");
  EXPECT_EQ(fault("0*16 1*8", "0*16 1*7"), "plan table line 7: 23 of 24 ranks at switches");
  EXPECT_EQ(fault("0*16 1*8", "0*16 1*9"), "plan table line 7: more than 24 ranks at switches");
  EXPECT_EQ(fault("0*16 1*8", "0*16 2*8"),
            "plan table line 7: switches are not numbered in the order of the ranks");
  EXPECT_EQ(fault("0*16 1*8", "0*16 18"),
            "plan table line 7: ranks of a switch \"\" is not a whole number");
  EXPECT_EQ(fault("0*16 1*8", "0*8 0*8 1*8"),
            "plan table: the checksum or the spelling of a line is wrong");
}

TEST(PlanTableText, ReportsTheLineAndTheFaultOfAWindow) {
  EXPECT_EQ(fault("all_reduce 262145 max", "all_reduce 262146 max"),
            "plan table line 15: the window begins at 262146, the one before ended at 262145");
  EXPECT_EQ(fault("262145 max", "262145 300000"),
            "plan table line 16: the windows of all_reduce end at 300000, not at max");
  EXPECT_EQ(fault("0 262145", "0 0"),
            "plan table line 14: end is 0, allowed are 1 to 9223372036854775807");
  EXPECT_EQ(fault("all_reduce_ring 4", "all_reduce_rung 4"),
            "plan table line 15: this build has no program \"all_reduce_rung\"");
  EXPECT_EQ(fault("all_reduce_ring 4", "all_gather_ring 4"),
            "plan table line 15: all_gather_ring does not compute all_reduce");
  EXPECT_EQ(fault("458752 65536", "458752 65500"),
            "plan table line 15: slice 65500 is not a multiple of 64");
  EXPECT_EQ(fault("65536 4 profile", "65536 65 profile"),
            "plan table line 15: channel sets is 65, allowed are 1 to 64");
  EXPECT_EQ(fault("all_gather none", "all_gathr none"),
            "plan table line 16: no collective is called \"all_gathr\"");
  EXPECT_EQ(fault("none no program", "none \x01 program"),
            "plan table line 16: the reason is not printable text");
  EXPECT_EQ(fault("all_gather none", "all_reduce none"),
            "plan table line 16: \"none\" after a window");
}

TEST(PlanTableText, RefusesAProgramThatDoesNotServeTheRanks) {
  std::string body = kBody;
  body.replace(body.find("ranks 24"), 8, "ranks 1025");
  body.replace(body.find(" 0*16 1*8"), 9, "");
  EXPECT_EQ(parse_plan_table(sealed(body), kAll).status().message(),
            "plan table line 14: all_reduce_recursive_doubling: it serves at most 1024 ranks, the "
            "communicator has 1025");
}

TEST(PlanTableText, RefusesSpellingsThatAreNotCanonical) {
  EXPECT_EQ(fault("ranks 24", "ranks 024"),
            "plan table: the checksum or the spelling of a line is wrong");
  EXPECT_EQ(fault("262145 max", "262145 9223372036854775807"),
            "plan table: the checksum or the spelling of a line is wrong");
  EXPECT_EQ(fault("strict 0", "strict 0 0"),
            "plan table: the checksum or the spelling of a line is wrong");
}

TEST(PlanTableText, RefusesEveryTruncationAndEveryChangedByte) {
  const std::string text = sealed(kBody);
  ASSERT_TRUE(parse_plan_table(text, kAll).is_ok());
  for (size_t length = 0; length < text.size(); ++length)
    ASSERT_FALSE(parse_plan_table(std::string_view(text).substr(0, length), kAll).is_ok())
        << length;
  for (size_t index = 0; index < text.size(); ++index)
    for (const int change : {1, 2, 4, 16, 128}) {
      std::string changed = text;
      changed[index] = static_cast<char>(changed[index] ^ change);
      ASSERT_FALSE(parse_plan_table(changed, kAll).is_ok()) << index;
    }
  EXPECT_FALSE(parse_plan_table(text + "\n", kAll).is_ok());
  EXPECT_EQ(parse_plan_table(std::string((1 << 20) + 1, 'x'), kAll).status().message(),
            "plan table: 1048577 bytes, at most 1048576");
}

TEST(PlanHash, IsTheChecksumOfTheEntryWithoutItsReason) {
  PlanEntry entry = {.algorithm = "all_reduce_ring",
                     .window_bytes = 458'752,
                     .slice_bytes = 65'536,
                     .frame_bytes = 65'536,
                     .channel_sets = 4,
                     .reason = "one"};
  const uint32_t hash = plan_hash(entry, Collective::AllReduce, 24);
  EXPECT_EQ(hash, fnv1a("all_reduce 24 all_reduce_ring 458752 65536 65536 4"));
  EXPECT_EQ(fnv1a(""), 0x811c9dc5U);
  EXPECT_EQ(fnv1a("a"), 0xe40c292cU);  // published test vectors
  entry.reason = "two";
  EXPECT_EQ(plan_hash(entry, Collective::AllReduce, 24), hash);
  EXPECT_NE(plan_hash(entry, Collective::AllGather, 24), hash);
  EXPECT_NE(plan_hash(entry, Collective::AllReduce, 23), hash);
  entry.slice_bytes = 64;
  EXPECT_NE(plan_hash(entry, Collective::AllReduce, 24), hash);
}

}  // namespace
}  // namespace mccl
