#include "base/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace mccl {
namespace {

// A file that is gone after the test.
struct TemporaryFile {
  TemporaryFile(const std::string& text, mode_t mode) {
    char name[] = "/tmp/mccl_secret_XXXXXX";
    const int file = ::mkstemp(name);
    path = name;
    EXPECT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(::fchmod(file, mode), 0);
    ::close(file);
  }
  ~TemporaryFile() { ::unlink(path.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path;
};

Result<std::string> read(const std::string& secret, const std::string& path) {
  Config config;
  config.secret = secret;
  config.secret_file = path;
  return read_secret(config);
}

TEST(Secret, IsEmptyWhenNoneIsSet) {
  EXPECT_EQ(read("", "").value(), "");
}

TEST(Secret, IsTheSettingOrTheFirstLineOfTheFile) {
  EXPECT_EQ(read("open sesame", "").value(), "open sesame");
  for (const char* text : {"in the file", "in the file\n", "in the file\r\nsecond\n"}) {
    const TemporaryFile file(text, 0400);
    EXPECT_EQ(read("", file.path).value(), "in the file");
    EXPECT_EQ(read("in the file", file.path).value(), "in the file");
  }
  const TemporaryFile longest(std::string(1024, 's') + "\n", 0600);
  EXPECT_EQ(read("", longest.path).value(), std::string(1024, 's'));
}

TEST(Secret, RefusesAFileThatIsOpenToOthers) {
  for (const auto& [mode, text] :
       {std::pair{0640, "0640"}, std::pair{0604, "0604"}, std::pair{0620, "0620"}}) {
    const TemporaryFile file("secret", static_cast<mode_t>(mode));
    EXPECT_EQ(read("", file.path).status().to_string(),
              "invalid argument: MCCL_SECRET_FILE=" + file.path +
                  " is open to others than its owner (mode " + text + "): chmod 600 it");
  }
}

TEST(Secret, RefusesAFileWithoutASecret) {
  const TemporaryFile empty("\nsecond", 0600), long_one(std::string(1025, 's'), 0600);
  EXPECT_EQ(read("", empty.path).status().message(),
            "MCCL_SECRET_FILE=" + empty.path + " has an empty first line: write the secret there");
  EXPECT_EQ(read("", long_one.path).status().message(),
            "MCCL_SECRET_FILE=" + long_one.path + " has a first line of more than 1024 bytes");
  EXPECT_EQ(read("", "/tmp").status().message(), "MCCL_SECRET_FILE=/tmp is not a file");
  EXPECT_EQ(read("", "/nowhere/at/all").status().message(),
            "MCCL_SECRET_FILE=/nowhere/at/all cannot be read: No such file or directory");
}

TEST(Secret, RefusesTwoThatDiffer) {
  const TemporaryFile file("one", 0600);
  EXPECT_EQ(read("two", file.path).status().message(),
            "MCCL_SECRET_FILE=" + file.path +
                " holds another secret than MCCL_SECRET: unset one of them");
}

TEST(Secret, IsShownNowhere) {
  const Environment environment = {{"MCCL_SECRET", "open sesame"}};
  const Config config = parse_config(environment, nullptr).value();
  EXPECT_EQ(config.secret, "open sesame");
  EXPECT_EQ(job_settings_text(config), job_settings_text(Config{}));
  for (const SettingRow& row : settings())
    EXPECT_EQ(write_shown_value(row, config).find("sesame"), std::string::npos) << row.name;
  const Environment bad = {{"MCCL_SECRET", std::string(1025, 's')}};
  EXPECT_EQ(parse_config(bad, nullptr).status().message(),
            "MCCL_SECRET=... is not allowed: give a text of at most 1024 bytes");
}

}  // namespace
}  // namespace mccl
