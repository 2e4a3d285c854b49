#include "dump/dump_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "comm/endpoint_core.h"
#include "dump/dump_reader.h"

namespace mccl {
namespace {

using testing::HasSubstr;

// This process asks itself: the endpoint's thread answers.
class DumpRequestTest : public testing::Test {
 protected:
  DumpRequestTest() {
    std::string pattern = testing::TempDir() + "/request-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~DumpRequestTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<Endpoint> make_endpoint(const std::string& directory) {
    Result<std::unique_ptr<Endpoint>> endpoint =
        Endpoint::create({{{"MCCL_DUMP_DIR", directory}}, "127.0.0.1"});
    EXPECT_EQ(endpoint.status().to_string(), "ok");
    return std::move(endpoint).value();
  }

  std::string directory_;
  SystemClock clock_;
};

TEST_F(DumpRequestTest, GivesTheNewDumpEachTime) {
  const auto endpoint = make_endpoint(directory_);
  const DumpRequest request{.pid = getpid(), .directory = directory_, .timeout_ns = 20'000'000'000};
  const Result<DumpAnswer> first = request_dump(request, clock_);
  ASSERT_EQ(first.status().to_string(), "ok");
  EXPECT_EQ(parse_dump(first.value().text, "x").value().pid, getpid());
  const Result<DumpAnswer> second = request_dump(request, clock_);
  ASSERT_EQ(second.status().to_string(), "ok");
  EXPECT_EQ(second.value().path, first.value().path);
  EXPECT_LT(parse_dump(first.value().text, "x").value().time,
            parse_dump(second.value().text, "x").value().time);
}

TEST_F(DumpRequestTest, SaysWhereItHasLooked) {
  const auto endpoint = make_endpoint(directory_);
  const Result<DumpAnswer> answer = request_dump(
      {.pid = getpid(), .directory = directory_ + "/other", .timeout_ns = 1'000'000}, clock_);
  EXPECT_EQ(answer.status().code(), StatusCode::Timeout);
  EXPECT_THAT(answer.status().message(), HasSubstr(directory_ + "/other/"));
  EXPECT_THAT(answer.status().message(), HasSubstr(" within 0.001 s: "));
}

TEST_F(DumpRequestTest, SendsNothingToAProcessThatWouldNotAnswer) {
  for (const char* directory : {"", "off"}) {
    std::unique_ptr<Endpoint> endpoint;
    if (*directory != '\0') endpoint = make_endpoint(directory);
    const Result<DumpAnswer> answer = request_dump({.pid = getpid()}, clock_);
    EXPECT_EQ(answer.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(answer.status().message(), HasSubstr("would not answer"));
  }
  EXPECT_EQ(request_dump({.pid = 1 << 30}, clock_).status().message(),
            "there is no process 1073741824 here");
}

TEST_F(DumpRequestTest, AHandlerOfTheProgramIsNotDisturbed) {
  ASSERT_NE(signal(SIGUSR1, [](int) { std::abort(); }), SIG_ERR);
  const auto endpoint = make_endpoint(directory_);
  EXPECT_THAT(request_dump({.pid = getpid()}, clock_).status().message(),
              HasSubstr("it handles SIGUSR1 itself"));
  ASSERT_NE(signal(SIGUSR1, SIG_DFL), SIG_ERR);
}

}  // namespace
}  // namespace mccl
