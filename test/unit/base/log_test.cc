#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mccl {
namespace {

using testing::ElementsAre;

TEST(Logger, PutsPrefixAndLevelBeforeTheText) {
  std::vector<std::string> lines;
  const Logger logger(LogLevel::Debug, rank_prefix(3),
                      [&](std::string_view line) { lines.emplace_back(line); });
  logger.error("a");
  logger.warning("b");
  logger.info("c");
  logger.debug("d");
  EXPECT_THAT(lines, ElementsAre("mccl[rank 3]: error: a", "mccl[rank 3]: warning: b",
                                 "mccl[rank 3]: info: c", "mccl[rank 3]: debug: d"));
}

TEST(Logger, WritesItsLevelAndWhatIsMoreSevere) {
  std::vector<std::string> lines;
  const Logger logger(LogLevel::Warning, "mccl",
                      [&](std::string_view line) { lines.emplace_back(line); });
  logger.error("a");
  logger.warning("b");
  logger.info("c");
  logger.debug("d");
  EXPECT_THAT(lines, ElementsAre("mccl: error: a", "mccl: warning: b"));
  EXPECT_TRUE(logger.is_enabled(LogLevel::Warning));
  EXPECT_FALSE(logger.is_enabled(LogLevel::Info));
}

TEST(Logger, TakesBracesAndPercentSignsAsText) {
  std::vector<std::string> lines;
  const Logger logger(LogLevel::Error, "mccl",
                      [&](std::string_view line) { lines.emplace_back(line); });
  logger.error("{} %s {0");
  EXPECT_THAT(lines, ElementsAre("mccl: error: {} %s {0"));
}

TEST(Logger, TwoLoggersKeepTheirLevelsApart) {
  std::vector<std::string> lines;
  const Logger::Sink sink = [&](std::string_view line) { lines.emplace_back(line); };
  const Logger quiet(LogLevel::Error, "quiet", sink);
  const Logger loud(LogLevel::Debug, "loud", sink);
  quiet.info("a");
  loud.info("b");
  EXPECT_THAT(lines, ElementsAre("loud: info: b"));
}

TEST(Logger, WritesToStandardErrorByDefault) {
  testing::internal::CaptureStderr();
  const Logger logger(LogLevel::Info, rank_prefix(0));
  logger.info("hello");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "mccl[rank 0]: info: hello\n");
}

TEST(Logger, ASinkThatThrowsDoesNotReachTheCaller) {
  const Logger logger(LogLevel::Error, "mccl", [](std::string_view) { throw 1; });
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(logger.error("a"));
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace mccl
