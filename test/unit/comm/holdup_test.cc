#include "comm/holdup.h"

#include <gtest/gtest.h>

#include <vector>

namespace mccl {
namespace {

constexpr uint64_t kWorld = 10;
constexpr uint64_t kOther = 20;
constexpr auto kNever = [](uint64_t, uint64_t) { return false; };

// Has not come to where others wait for it, because of what it waits for elsewhere.
Holdup absent(uint64_t process, uint64_t communicator, std::vector<uint64_t> waits_for,
              uint64_t waits_in) {
  return {.process = process,
          .communicator = communicator,
          .waits_for = std::move(waits_for),
          .waits_in = waits_in};
}

// Has come to the first operation, and waits there.
Holdup waiting(uint64_t process, uint64_t communicator, std::vector<uint64_t> waits_for) {
  return {.process = process,
          .communicator = communicator,
          .posted_count = 1,
          .waits_for = std::move(waits_for),
          .waits_in = communicator};
}

std::vector<uint64_t> processes(const std::vector<Holdup>& holdups) {
  std::vector<uint64_t> found;
  for (const Holdup& holdup : holdups) found.push_back(holdup.process);
  return found;
}

std::vector<uint64_t> circle_of_1(std::vector<uint64_t> peers, const std::vector<Holdup>& holdups) {
  return processes(find_circle({1, kWorld, 0, peers}, holdups, kNever));
}

TEST(FindCircle, LeadsThroughAnyOfThePeersThatARankWaitsFor) {
  const std::vector<Holdup> holdups = {absent(2, kWorld, {5, 6, 1}, kOther),
                                       waiting(3, kWorld, {2})};
  EXPECT_EQ(circle_of_1({4, 3}, holdups), (std::vector<uint64_t>{}));  // nobody knows of 4
  const auto is_absent = [](uint64_t communicator, uint64_t) { return communicator == kOther; };
  const std::vector<uint64_t> peers = {4, 3};
  EXPECT_EQ(processes(find_circle({1, kWorld, 0, peers}, holdups, is_absent)),
            (std::vector<uint64_t>{3, 2}));
}

// The ring: each waits for the one before it in the same operation; one of them is elsewhere.
TEST(FindCircle, LeadsThroughRanksThatHaveCome) {
  const std::vector<Holdup> holdups = {absent(4, kWorld, {3}, kOther),
                                       absent(3, kOther, {2}, kWorld), waiting(3, kWorld, {2}),
                                       waiting(2, kWorld, {1})};
  EXPECT_EQ(circle_of_1({4}, holdups), (std::vector<uint64_t>{4, 3, 2}));
}

TEST(FindCircle, RanksThatWaitForEachOthersDataAreNone) {
  EXPECT_EQ(circle_of_1({2}, {waiting(2, kWorld, {3}), waiting(3, kWorld, {1})}),
            (std::vector<uint64_t>{}));
}

// Rank 2 has come and rank 3 has not; both wait for rank 4, which waits for rank 1.
TEST(FindCircle, LeadsThroughARankByTheWayOnWhichSomebodyIsMissing) {
  const std::vector<Holdup> holdups = {waiting(2, kWorld, {4}), absent(3, kWorld, {4}, kOther),
                                       waiting(4, kWorld, {1}), waiting(4, kOther, {1})};
  const auto is_absent = [](uint64_t communicator, uint64_t) { return communicator == kOther; };
  const std::vector<uint64_t> peers = {2, 3};
  EXPECT_EQ(processes(find_circle({1, kWorld, 0, peers}, holdups, is_absent)),
            (std::vector<uint64_t>{3, 4}));
}

TEST(Holdup, BusyInAnOperationHoldsUpThatOneAndTheNext) {
  const Holdup busy{.posted_count = 9, .waits_number = 5, .is_busy = true};
  EXPECT_FALSE(busy.holds(4));
  EXPECT_TRUE(busy.holds(5));
  EXPECT_TRUE(busy.holds(6));
}

TEST(FindCircle, IsTheShortest) {
  const std::vector<Holdup> holdups = {absent(2, kWorld, {3}, kOther),
                                       absent(3, kOther, {1}, kWorld),
                                       absent(4, kWorld, {1}, kWorld)};
  EXPECT_EQ(circle_of_1({2, 4}, holdups), (std::vector<uint64_t>{4}));
}

TEST(FindCircle, EndsWhereOthersWaitInACircleOfTheirOwn) {
  EXPECT_EQ(circle_of_1({2}, {absent(2, kWorld, {3}, kOther), absent(3, kOther, {2}, kWorld)}),
            (std::vector<uint64_t>{}));
}

TEST(Report, CarriesEverythingThatIsSaid) {
  Holdup holdup{.process = 7,
                .communicator = 8,
                .version = 9,
                .posted_count = 10,
                .waits_for = {11, 12},
                .waits_in = 13,
                .waits_number = 14,
                .is_busy = true,
                .is_silent = true,
                .said_at = 5 * kNsPerSecond,
                .name = "rank 2",
                .text = "it waits"};
  const std::vector<std::byte> report = write_report({&holdup, 1}, 7 * kNsPerSecond);
  const auto parsed = parse_report(report, 100 * kNsPerSecond);
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->size(), 1u);
  const Holdup& read = parsed->front();
  EXPECT_EQ(read.process, 7u);
  EXPECT_EQ(read.communicator, 8u);
  EXPECT_EQ(read.version, 9u);
  EXPECT_EQ(read.posted_count, 10u);
  EXPECT_EQ(read.waits_for, (std::vector<uint64_t>{11, 12}));
  EXPECT_EQ(read.waits_in, 13u);
  EXPECT_EQ(read.waits_number, 14u);
  EXPECT_TRUE(read.is_busy);
  EXPECT_TRUE(read.is_silent);
  EXPECT_EQ(read.said_at, 98 * kNsPerSecond);
  EXPECT_EQ(read.name, "rank 2");
  EXPECT_EQ(read.text, "it waits");
}

TEST(Report, IsRefusedWhereverItIsCut) {
  const Holdup holdup{.waits_for = {1, 2, 3}, .name = "rank 2", .text = "it waits"};
  const std::vector<std::byte> report = write_report({&holdup, 1}, 0);
  for (size_t bytes = 1; bytes < report.size(); ++bytes)
    EXPECT_FALSE(parse_report(std::span(report).first(bytes), 0).has_value()) << bytes;
}

TEST(Report, HoldsAtMostWhatAFrameMayCarry) {
  const Holdup holdup{.waits_for = std::vector<uint64_t>(100, 1),
                      .name = std::string(1000, 'n'),
                      .text = std::string(1000, 't')};
  const std::vector<Holdup> holdups(20, holdup);
  const auto parsed = parse_report(write_report(holdups, 0), 0);
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->size(), kHoldupsMax);
  EXPECT_EQ(parsed->back().waits_for, std::vector<uint64_t>(kWaitsForMax, 1));
  EXPECT_EQ(parsed->back().name + parsed->back().text,
            std::string(kHoldupTextMax / 2, 'n') + std::string(kHoldupTextMax / 2, 't'));
}

}  // namespace
}  // namespace mccl
