#include "verb/command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

namespace mccl {
namespace {

using Words = std::vector<std::string>;

VerbRun declare_echo(CLI::App& app) {
  auto word = std::make_shared<std::string>();
  app.add_option("--word", *word, "What to say")->required();
  return [word](Terminal& terminal) {
    terminal.out << (terminal.is_json ? "{}" : *word);
    return *word == "no" ? ExitCode::No : ExitCode::Ok;
  };
}

constexpr Verb kEcho = {.name = "echo",
                        .summary = "says a word",
                        .example = "  mccl echo --word yes",
                        .declare = &declare_echo};
constexpr std::array kVerbs = {&kEcho};

struct Outcome {
  ExitCode code;
  std::string out;
  std::string err;
  Words program;
};

Outcome run(const Words& arguments) {
  std::ostringstream out, err;
  Terminal terminal{.out = out, .err = err};
  Words program;
  const Command command{.verbs = kVerbs,
                        .version = "1.2.3",
                        .run_program = [&](const Words& words) { program = words; }};
  const ExitCode code = run_command(command, arguments, terminal);
  return {code, out.str(), err.str(), program};
}

TEST(Command, RunsAVerbAndGivesItsAnswer) {
  EXPECT_EQ(run({"echo", "--word", "yes"}).out, "yes");
  EXPECT_EQ(run({"echo", "--word", "yes"}).code, ExitCode::Ok);
  EXPECT_EQ(run({"echo", "--word", "no"}).code, ExitCode::No);
  EXPECT_EQ(run({"echo", "--word", "yes", "--json"}).out, "{}");
  EXPECT_EQ(run({"--version"}).out, "mccl 1.2.3\n");
}

TEST(Command, HelpsOnStandardOutputWithAnExample) {
  EXPECT_NE(run({"-h"}).out.find("echo       says a word"), std::string::npos);
  const Outcome help = run({"echo", "-h"});
  EXPECT_EQ(help.code, ExitCode::Ok);
  EXPECT_NE(help.out.find("Example:\n  mccl echo --word yes"), std::string::npos);
  EXPECT_EQ(help.err, "");
}

TEST(Command, SaysWhatIsWrongOnStandardError) {
  const Outcome none = run({});
  EXPECT_EQ(none.code, ExitCode::Usage);
  EXPECT_EQ(none.out, "");
  const Outcome missing = run({"echo"});
  EXPECT_EQ(missing.code, ExitCode::Usage);
  EXPECT_EQ(missing.err, "mccl echo: --word is required; `mccl echo -h` says what is allowed\n");
  EXPECT_EQ(run({"echo", "--wrod", "x"}).code, ExitCode::Usage);
}

TEST(Command, RefusesWordsThatAreEmpty) {
  const Outcome outcome = run({"echo", "--word", ""});
  EXPECT_EQ(outcome.code, ExitCode::Usage);
  EXPECT_EQ(outcome.err, "mccl echo: \"\" has no value; `mccl echo -h` says what is allowed\n");
  EXPECT_EQ(run({"echo", "--word="}).err,
            "mccl echo: \"--word=\" has no value; `mccl echo -h` says what is allowed\n");
  EXPECT_EQ(run({"echo", "--word=="}).code, ExitCode::Usage);
}

TEST(Seeds, AreWholeNumbersOf64Bits) {
  EXPECT_EQ(check_seed("0"), "");
  EXPECT_EQ(check_seed("18446744073709551615"), "");
  for (const char* text : {"-1", "18446744073709551616", "1.5", "x", ""})
    EXPECT_EQ(check_seed(text),
              std::string("\"") + text + "\" is not a whole number from 0 to 2^64 - 1");
}

TEST(Files, AreReadWholeOrRefused) {
  std::istringstream standard("a\0b", std::ios::binary);
  EXPECT_EQ(read_whole_file("-", &standard).value(), "a");
  const std::string path = testing::TempDir() + "mccl_read_whole_" + std::to_string(::getpid());
  std::ofstream(path) << "all of it";
  EXPECT_EQ(read_whole_file(path, nullptr).value(), "all of it");
  std::remove(path.c_str());
  EXPECT_EQ(read_whole_file("/dev/null", nullptr).value(), "");
  EXPECT_EQ(read_whole_file("/", nullptr).status().message(), "/: cannot be read");
  EXPECT_EQ(read_whole_file("-", nullptr).status().message(), "-: cannot be read");
  EXPECT_EQ(read_whole_file("/dev/zero", nullptr).status().message(),
            "/dev/zero: longer than the 67108864 bytes that are read");
}

TEST(Command, LooksForOtherVerbsOnThePath) {
  const Outcome other = run({"ecco", "-x", "1"});
  EXPECT_EQ(other.program, (Words{"mccl-ecco", "-x", "1"}));
  EXPECT_EQ(other.code, ExitCode::Usage);
  EXPECT_EQ(other.err,
            "mccl: there is no verb ecco and no program mccl-ecco on the PATH; the nearest verb is "
            "echo\n");
  EXPECT_EQ(run({"../echo"}).program, Words{});
}

TEST(Sizes, HaveBinarySuffixes) {
  EXPECT_EQ(parse_byte_list("8,64K,25M,1G").value(),
            (std::vector<int64_t>{8, 65536, 26214400, 1073741824}));
  EXPECT_EQ(parse_bytes("1024G").value(), int64_t{1} << 40);
  for (const char* text : {"", "K", "-1", "1T", "25MB", "1025G", "99999999999999999999", "1 K"})
    EXPECT_EQ(parse_bytes(text).status().code(), StatusCode::InvalidArgument) << text;
  EXPECT_EQ(write_bytes(26214400), "25M");
  EXPECT_EQ(write_bytes(1000), "1000");
}

TEST(ExitCodes, FollowTheStatus) {
  EXPECT_EQ(exit_code_of(Status::ok()), ExitCode::Ok);
  EXPECT_EQ(exit_code_of({StatusCode::NotProven, ""}), ExitCode::No);
  EXPECT_EQ(exit_code_of({StatusCode::InvalidArgument, ""}), ExitCode::Usage);
  EXPECT_EQ(exit_code_of({StatusCode::PeerLost, ""}), ExitCode::Network);
  EXPECT_EQ(exit_code_of({StatusCode::Timeout, ""}), ExitCode::Timeout);
}

}  // namespace
}  // namespace mccl
