#include "comm/dump_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "comm/dump_thread.h"

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A directory of the test's own.
class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "/dumps-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> names(const std::string& below = "") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_ + "/" + below))
      names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DumpFiles, AreNamedAfterHostAndProcess) {
  Config config;
  const DumpFile own = choose_dump_file(config, "h7.local", 4711);
  EXPECT_EQ(own.path(),
            temporary_directory() + "/mccl-" + std::to_string(geteuid()) + "/h7.local-4711.json");
  EXPECT_TRUE(own.is_private);
  config.dump_directory = "/var/dumps";
  const DumpFile chosen = choose_dump_file(config, "../h 7", 1);
  EXPECT_EQ(chosen.path(), "/var/dumps/_._h_7-1.json");
  EXPECT_FALSE(chosen.is_private);
  EXPECT_EQ(dump_file_at("x.json").path(), "./x.json");
  EXPECT_EQ(dump_file_at("/a/x.json").path(), "/a/x.json");
}

TEST(DumpFiles, AreReplacedWholeAndReadByNobodyElse) {
  const Folder folder;
  const DumpFile file{folder / "mine", "a.json", true};
  ASSERT_EQ(write_dump_file(file, "first", 1).to_string(), "ok");
  ASSERT_EQ(write_dump_file(file, "2nd", 1).to_string(), "ok");
  EXPECT_EQ(read(file.path()), "2nd");
  EXPECT_THAT(folder.names("mine"), ElementsAre("a.json"));
  struct stat state {};
  ASSERT_EQ(stat(file.path().c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((folder / "mine").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700u);
}

TEST(DumpFiles, ThatNobodyClearsAreAtMost256) {
  const Folder folder;
  for (const bool is_private : {false, true})
    for (int number = 0; number < 258; ++number) {
      const std::string directory = folder / (is_private ? "mine" : "chosen");
      const DumpFile file{directory, std::to_string(number), is_private};
      ASSERT_EQ(write_dump_file(file, "x", 1).to_string(), "ok");
      const auto written = std::filesystem::last_write_time(file.path());
      std::filesystem::last_write_time(file.path(), written - std::chrono::seconds(300 - number));
    }
  EXPECT_EQ(folder.names("chosen").size(), 258u);
  const std::vector<std::string> kept = folder.names("mine");
  EXPECT_EQ(kept.size(), 256u);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "0"), 0);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "2"), 1);
}

TEST(DumpFiles, DoNotGoWhereOthersReachOrALinkLeads) {
  const Folder folder;
  ASSERT_EQ(mkdir((folder / "open").c_str(), 0700), 0);
  ASSERT_EQ(chmod((folder / "open").c_str(), 0755), 0);
  EXPECT_THAT(write_dump_file({folder / "open", "a.json", true}, "x", 1).message(),
              HasSubstr("has mode 755, where user "));
  ASSERT_EQ(mkdir((folder / "target").c_str(), 0700), 0);
  ASSERT_EQ(symlink((folder / "target").c_str(), (folder / "link").c_str()), 0);
  EXPECT_THAT(write_dump_file({folder / "link", "a.json", true}, "x", 1).message(),
              HasSubstr("let MCCL_DUMP_DIR name a directory of yours"));
  EXPECT_TRUE(folder.names("target").empty());
  // A directory that somebody chose is used as it is.
  EXPECT_EQ(write_dump_file({folder / "link", "a.json", false}, "x", 1).to_string(), "ok");
}

TEST(DumpFiles, SayWhyTheyAreNotWritten) {
  const Folder folder;
  std::ofstream(folder / "file") << "no directory";
  EXPECT_EQ(write_dump_file({folder / "file/dumps", "a.json", false}, "x", 1).message(),
            "cannot make " + (folder / "file/dumps") +
                ": Not a directory; let MCCL_DUMP_DIR name a directory of yours, or be off");
  EXPECT_EQ(write_dump_file({folder / "file", "a.json", false}, "x", 1).message(),
            "cannot open " + (folder / "file") +
                ": Not a directory; let MCCL_DUMP_DIR name a directory of yours, or be off");
}

// The lines of a log, and waiting for them.
class Lines {
 public:
  Logger logger() {
    return Logger(LogLevel::Debug, "mccl", [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
      changed_.notify_all();
    });
  }
  // Once there are `count`.
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

ProcessDump dump_of(const std::string& cause) {
  ProcessDump dump;
  dump.cause = cause;
  return dump;
}

std::unique_ptr<DumpThread> start(const DumpFile& file, Lines& lines) {
  return DumpThread::start(file, lines.logger(), [] { return dump_of("signal"); }).value();
}

TEST(DumpThread, WritesWhatIsHandedOverBeforeItEnds) {
  const Folder folder;
  Lines lines;
  const DumpFile file{folder / "dumps", "a.json", false};
  start(file, lines)->hand_over(dump_of("failure"), {"group 0, rank 1: peer lost: rank 0"});
  EXPECT_THAT(
      lines.wait_for(1),
      ElementsAre("mccl: warning: group 0, rank 1: peer lost: rank 0; the last operations: " +
                  file.path()));
  EXPECT_THAT(read(file.path()), HasSubstr("\"cause\": \"failure\""));
}

// A signal that comes later, of a tool that looked before, ends nobody.
TEST(DumpThread, AnswersSigusr1AndLetsLaterOnesPass) {
  const Folder folder;
  Lines lines;
  const DumpFile file{folder / "dumps", "a.json", false};
  {
    const auto thread = start(file, lines);
    ASSERT_EQ(raise(SIGUSR1), 0);
    EXPECT_THAT(lines.wait_for(1),
                ElementsAre("mccl: info: SIGUSR1: the last operations: " + file.path()));
  }
  EXPECT_THAT(read(file.path()), HasSubstr("\"cause\": \"signal\""));
  ASSERT_EQ(raise(SIGUSR1), 0);
  EXPECT_THAT(lines.wait_for(1), testing::SizeIs(1));
  // Another endpoint takes it up again.
  const auto again = start(file, lines);
  ASSERT_EQ(raise(SIGUSR1), 0);
  EXPECT_THAT(lines.wait_for(2), testing::SizeIs(2));
}

TEST(DumpThread, LeavesAHandlerOfTheProgramAlone) {
  const Folder folder;
  Lines lines;
  static volatile std::sig_atomic_t count = 0;
  count = 0;
  struct sigaction own {
  }, before{};
  own.sa_handler = [](int) { count = count + 1; };
  ASSERT_EQ(sigaction(SIGUSR1, &own, &before), 0);
  {
    const auto thread = start({folder / "dumps", "a.json", false}, lines);
    ASSERT_EQ(raise(SIGUSR1), 0);
  }
  ASSERT_EQ(raise(SIGUSR1), 0);
  EXPECT_EQ(count, 2);
  EXPECT_THAT(lines.wait_for(1), ElementsAre(HasSubstr("SIGUSR1 is handled already")));
  EXPECT_TRUE(folder.names().empty());
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(DumpThread, AHandlerThatTheProgramSetsLaterStays) {
  const Folder folder;
  Lines lines;
  struct sigaction own {
  }, after{};
  {
    const auto thread = start({folder / "dumps", "a.json", false}, lines);
    own.sa_handler = SIG_IGN;
    ASSERT_EQ(sigaction(SIGUSR1, &own, nullptr), 0);
  }
  own.sa_handler = SIG_DFL;
  ASSERT_EQ(sigaction(SIGUSR1, &own, &after), 0);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST(DumpThread, AnotherOneTakesASignalThatTheProgramHasPutBack) {
  const Folder folder;
  Lines lines, others;
  auto first = start({folder / "dumps", "first.json", false}, lines);
  ASSERT_NE(signal(SIGUSR1, SIG_DFL), SIG_ERR);
  const auto second = start({folder / "dumps", "second.json", false}, others);
  first.reset();
  ASSERT_EQ(raise(SIGUSR1), 0);
  EXPECT_EQ(others.wait_for(1).size(), 1u);
  EXPECT_THAT(folder.names("dumps"), ElementsAre("second.json"));
}

TEST(DumpThread, OfTwoTheFirstAnswers) {
  const Folder folder;
  Lines lines, others;
  const auto first = start({folder / "dumps", "first.json", false}, lines);
  const auto second = start({folder / "dumps", "second.json", false}, others);
  ASSERT_EQ(raise(SIGUSR1), 0);
  EXPECT_EQ(lines.wait_for(1).size(), 1u);
  EXPECT_THAT(folder.names("dumps"), ElementsAre("first.json"));
}

TEST(DumpThread, InAForkedChildTheSignalDoesWhatItAlwaysDoes) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer holds signals back in a forked child";
#endif
  const Folder folder;
  Lines lines;
  const auto thread = start({folder / "dumps", "a.json", false}, lines);
  const pid_t child = fork();
  if (child == 0) {
    (void)raise(SIGUSR1);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGUSR1);
}

TEST(DumpThread, WarnsOnceWhereNothingCanBeWritten) {
  const Folder folder;
  Lines lines;
  std::ofstream(folder / "file") << "no directory";
  {
    const auto thread = start({folder / "file", "a.json", false}, lines);
    thread->hand_over(dump_of("failure"), {"group 0, rank 1: lost"});
    EXPECT_THAT(lines.wait_for(2),
                ElementsAre("mccl: warning: group 0, rank 1: lost",
                            HasSubstr("mccl: warning: the last operations are not written: ")));
    ASSERT_EQ(raise(SIGUSR1), 0);
  }
  EXPECT_THAT(lines.wait_for(3)[2], HasSubstr("mccl: debug: SIGUSR1: the last operations are not"));
}

}  // namespace
}  // namespace mccl
