#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

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

// A pipe that nobody reads costs a moment once, and what is lost is counted.
TEST(Logger, APipeThatNobodyReadsDoesNotStopTheWriter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int standard_error = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  const Logger logger(LogLevel::Info, "mccl");
  const std::string text(5000, 'x');  // more than a pipe takes in one piece
  for (int line = 0; line < 100; ++line) logger.info(text);
  std::string read_text(1 << 20, '\0');
  const ssize_t early = read(ends[0], read_text.data(), read_text.size());
  logger.info("hello");
  const ssize_t late = read(ends[0], read_text.data(), read_text.size());
  dup2(standard_error, STDERR_FILENO);
  for (const int end : {ends[0], ends[1], standard_error}) close(end);
  ASSERT_GT(early, 0);
  ASSERT_GT(late, 0);
  read_text.resize(static_cast<size_t>(late));
  const size_t whole = static_cast<size_t>(early) / (text.size() + 13);
  EXPECT_EQ(read_text, "mccl: warning: " + std::to_string(100 - whole) +
                           " lines were lost before this one: nobody read standard error\n"
                           "mccl: info: hello\n");
}

// A terminal says that it takes more when it takes one byte; signals do not make the time longer.
TEST(Logger, ATerminalThatNobodyReadsDoesNotStopTheWriter) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master) + unlockpt(master), 0);
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const int standard_error = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  struct sigaction before = {};
  sigaction(SIGALRM, &action, &before);
  const itimerval often = {{0, 20'000}, {0, 20'000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const Logger logger(LogLevel::Info, "mccl");
  for (int line = 0; line < 1000; ++line) logger.info(std::string(300, 'x'));
  const itimerval never = {};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  dup2(standard_error, STDERR_FILENO);
  for (const int end : {master, terminal, standard_error}) close(end);
}

TEST(Logger, APipeWithoutAReaderDoesNotEndTheProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int standard_error = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  close(ends[0]);
  const Logger logger(LogLevel::Info, "mccl");
  logger.info("hello");
  dup2(standard_error, STDERR_FILENO);
  for (const int end : {ends[1], standard_error}) close(end);
}

}  // namespace
}  // namespace mccl
