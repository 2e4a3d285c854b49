#include "env/env_report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mccl {
namespace {

EnvRow row_of(const Environment& environment, std::string_view name) {
  const EnvReport report = make_env_report(environment);
  return *std::find_if(report.rows.begin(), report.rows.end(),
                       [&](const EnvRow& row) { return row.name == name; });
}

TEST(EnvReport, HasEverySettingOnce) {
  const EnvReport report = make_env_report({});
  ASSERT_EQ(report.rows.size(), settings().size());
  for (size_t index = 0; index < report.rows.size(); ++index) {
    EXPECT_EQ(report.rows[index].name, settings()[index].name);
    EXPECT_EQ(report.rows[index].value, report.rows[index].default_value);
    EXPECT_EQ(report.rows[index].origin, "default");
  }
  EXPECT_TRUE(report.is_usable());
}

TEST(EnvReport, SaysWhereAValueComesFrom) {
  const Environment environment = {{"NCCL_ALGO", "Ring"}, {"MCCL_TIMEOUT", "60"}};
  EXPECT_EQ(row_of(environment, "MCCL_ALGO").value, "ring");
  EXPECT_EQ(row_of(environment, "MCCL_ALGO").origin, "NCCL_ALGO");
  EXPECT_EQ(row_of(environment, "MCCL_ALGO").scope, SettingScope::Job);
  EXPECT_EQ(row_of(environment, "MCCL_TIMEOUT").value, "60");
  EXPECT_EQ(row_of(environment, "MCCL_TIMEOUT").default_value, "1800");
  EXPECT_EQ(row_of(environment, "MCCL_TIMEOUT").origin, "environment");
  EXPECT_EQ(row_of(environment, "MCCL_TIMEOUT").scope, SettingScope::Local);
}

TEST(EnvReport, NamesAValueThatIsNotAllowed) {
  const EnvReport report = make_env_report(Environment{{"MCCL_TIMEOUT", "soon"}});
  EXPECT_FALSE(report.is_usable());
  EXPECT_EQ(row_of({{"MCCL_TIMEOUT", "soon"}}, "MCCL_TIMEOUT").fault,
            "MCCL_TIMEOUT=soon is not allowed: give a number from 0.001 to 10000000");
}

TEST(EnvReport, NamesUnknownSettingsWithoutTheirValues) {
  const EnvReport report =
      make_env_report(Environment{{"MCCL_TIMEOUTS", "1"}, {"NCCL_DEBUG", "INFO"}});
  ASSERT_EQ(report.unknown.size(), 1u);
  EXPECT_EQ(report.unknown[0].name, "MCCL_TIMEOUTS");
  EXPECT_EQ(report.unknown[0].nearest, "MCCL_TIMEOUT");
}

}  // namespace
}  // namespace mccl
