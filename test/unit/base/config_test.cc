#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Config parse(const Environment& environment) {
  Result<Config> config = parse_config(environment, nullptr);
  EXPECT_TRUE(config.is_ok()) << config.status().to_string();
  return config.is_ok() ? config.value() : Config{};
}

std::string error_of(const Environment& environment) {
  const Result<Config> config = parse_config(environment, nullptr);
  return config.is_ok() ? "accepted" : config.status().to_string();
}

TEST(Config, AnEmptyEnvironmentGivesTheDefaults) {
  const Config config = parse({});
  EXPECT_EQ(config.socket_interfaces, "");
  EXPECT_EQ(config.port_first, 0);
  EXPECT_EQ(config.socket_buffer_bytes, 0);
  EXPECT_EQ(config.park_limit_bytes, 268435456);
  EXPECT_EQ(config.algorithms, "");
  EXPECT_FALSE(config.is_algorithm_strict);
  EXPECT_FALSE(config.is_canonical_order);
  EXPECT_EQ(config.timeout_ns, 1'800'000'000'000);
  EXPECT_EQ(config.peer_timeout_ns, 10'000'000'000);
  EXPECT_EQ(config.log_level, LogLevel::Info);
  EXPECT_EQ(config.cost_profile, CostProfile::Auto);
  EXPECT_EQ(config.switch_name, "");
  EXPECT_EQ(config.uplink_ports, 0);
}

TEST(Config, EverySettingReachesItsField) {
  const Config config =
      parse({{"MCCL_SOCKET_IFNAME", "=eth0"},     {"MCCL_PORT_RANGE", "29600-29700"},
             {"MCCL_SOCKET_BUFFER", "4M"},        {"MCCL_PARK_LIMIT", "1G"},
             {"MCCL_ALGO", "Ring, tree"},         {"MCCL_ALGO_STRICT", "1"},
             {"MCCL_DETERMINISTIC", "canonical"}, {"MCCL_TIMEOUT", "60"},
             {"MCCL_PEER_TIMEOUT", "2.5"},        {"MCCL_LOG", "debug"},
             {"MCCL_DUMP_DIR", "/var/dumps"},     {"MCCL_PROFILE", "paper"},
             {"MCCL_ALGO_DIR", "/programs"},      {"MCCL_ALGO_FIT", "Strict"},
             {"MCCL_ALGO_UNPROVEN", "allow"},     {"MCCL_PROTO", "^LL, LL128"},
             {"MCCL_TOPOLOGY", "lab-3"},          {"MSCCL_CONFIG", "list.xml"},
             {"MSCCL_XML_FILES", "a.xml:b.xml"},  {"MCCL_SWITCH", "rack-3/top"},
             {"MCCL_UPLINK_PORTS", "10"}});
  EXPECT_EQ(config.socket_interfaces, "=eth0");
  EXPECT_EQ(config.port_first, 29600);
  EXPECT_EQ(config.port_last, 29700);
  EXPECT_EQ(config.socket_buffer_bytes, 4194304);
  EXPECT_EQ(config.park_limit_bytes, 1073741824);
  EXPECT_EQ(config.algorithms, "ring,tree");
  EXPECT_TRUE(config.is_algorithm_strict);
  EXPECT_TRUE(config.is_canonical_order);
  EXPECT_EQ(config.timeout_ns, 60'000'000'000);
  EXPECT_EQ(config.peer_timeout_ns, 2'500'000'000);
  EXPECT_EQ(config.log_level, LogLevel::Debug);
  EXPECT_EQ(config.dump_directory, "/var/dumps");
  EXPECT_EQ(config.cost_profile, CostProfile::Paper);
  EXPECT_EQ(config.program_folder, "/programs");
  EXPECT_TRUE(config.is_fit_strict);
  EXPECT_TRUE(config.allows_unproven);
  EXPECT_EQ(config.protocols, "^ll,ll128");
  EXPECT_EQ(config.topology_name, "lab-3");
  EXPECT_EQ(config.program_list_file, "list.xml");
  EXPECT_EQ(config.program_files, "a.xml:b.xml");
  EXPECT_EQ(config.switch_name, "rack-3/top");
  EXPECT_EQ(config.uplink_ports, 10);
}

TEST(Config, OurVariableWinsOverForeignOnesAndGlooOverNccl) {
  EXPECT_EQ(parse({{"NCCL_SOCKET_IFNAME", "ib0"}}).socket_interfaces, "ib0");
  EXPECT_EQ(
      parse({{"NCCL_SOCKET_IFNAME", "ib0"}, {"GLOO_SOCKET_IFNAME", "eth1"}}).socket_interfaces,
      "eth1");
  EXPECT_EQ(
      parse({{"GLOO_SOCKET_IFNAME", "eth1"}, {"MCCL_SOCKET_IFNAME", "eth2"}}).socket_interfaces,
      "eth2");
  EXPECT_EQ(parse({{"NCCL_ALGO", "Ring"}}).algorithms, "ring");
  EXPECT_EQ(parse({{"NCCL_ALGO", "Ring"}, {"MCCL_ALGO", "^tree"}}).algorithms, "^tree");
}

TEST(Config, TheVariableThatCountsIsNamed) {
  const auto source = [](const Environment& environment) {
    const auto row = std::find_if(settings().begin(), settings().end(),
                                  [](const SettingRow& one) { return one.name == "MCCL_ALGO"; });
    const SettingSource found = find_source(*row, environment);
    return std::string(found.variable) + "=" + std::string(found.text);
  };
  EXPECT_EQ(source({}), "=");
  EXPECT_EQ(source({{"MCCL_ALGO", ""}, {"NCCL_ALGO", "Ring"}}), "NCCL_ALGO=Ring");
  EXPECT_EQ(source({{"NCCL_ALGO", "Ring"}, {"MCCL_ALGO", "tree"}}), "MCCL_ALGO=tree");
}

TEST(Config, ASecretIsShownToNobody) {
  SettingRow row = settings()[0];
  row.is_secret = true;
  row.write = [](const Config& config) { return config.switch_name; };
  Config config;
  EXPECT_EQ(write_shown_value(row, config), "");
  config.switch_name = "hunter2";
  EXPECT_EQ(write_shown_value(row, config), "(set)");
  row.is_secret = false;
  EXPECT_EQ(write_shown_value(row, config), "hunter2");
}

TEST(Config, AnEmptyValueIsLikeNone) {
  EXPECT_EQ(parse({{"MCCL_TIMEOUT", ""}}), Config{});
  EXPECT_EQ(parse({{"MCCL_ALGO", ""}, {"NCCL_ALGO", "tree"}}).algorithms, "tree");
}

TEST(Config, BytesTakeASuffixInEitherCase) {
  EXPECT_EQ(parse({{"MCCL_SOCKET_BUFFER", "0"}}).socket_buffer_bytes, 0);
  EXPECT_EQ(parse({{"MCCL_SOCKET_BUFFER", "65536"}}).socket_buffer_bytes, 65536);
  EXPECT_EQ(parse({{"MCCL_SOCKET_BUFFER", "512k"}}).socket_buffer_bytes, 524288);
  EXPECT_EQ(parse({{"MCCL_SOCKET_BUFFER", "1G"}}).socket_buffer_bytes, 1073741824);
}

TEST(Config, ABadValueNamesVariableValueAndWhatIsAllowed) {
  EXPECT_EQ(
      error_of({{"MCCL_PARK_LIMIT", "1K"}}),
      "invalid argument: MCCL_PARK_LIMIT=1K is not allowed: give 64K to 1024G, with a suffix K, "
      "M or G or none");
  EXPECT_EQ(
      error_of({{"MCCL_LOG", "verbose"}}),
      "invalid argument: MCCL_LOG=verbose is not allowed: give error, warning, info or debug");
}

TEST(Config, AForeignVariableIsBlamedByItsOwnName) {
  EXPECT_THAT(error_of({{"NCCL_ALGO", "ring!"}}), HasSubstr("NCCL_ALGO=ring! is not allowed"));
}

TEST(Config, AllBadValuesAreReportedAtOnce) {
  const std::string error = error_of({{"MCCL_TIMEOUT", "soon"}, {"MCCL_PORT_RANGE", "9-1"}});
  EXPECT_THAT(error, HasSubstr("MCCL_TIMEOUT=soon is not allowed"));
  EXPECT_THAT(error, HasSubstr("; MCCL_TIMEOUT"));
  EXPECT_THAT(error, HasSubstr("MCCL_PORT_RANGE=9-1 is not allowed"));
}

struct BadValue {
  const char* name;
  const char* value;
};

class ConfigRefuses : public testing::TestWithParam<BadValue> {};

TEST_P(ConfigRefuses, TheValue) {
  const BadValue bad = GetParam();
  EXPECT_THAT(error_of({{bad.name, bad.value}}),
              HasSubstr(std::string(bad.name) + "=" + bad.value + " is not allowed"));
}

INSTANTIATE_TEST_SUITE_P(
    Values, ConfigRefuses,
    testing::Values(BadValue{"MCCL_PORT_RANGE", "80"}, BadValue{"MCCL_PORT_RANGE", "0-5"},
                    BadValue{"MCCL_PORT_RANGE", "1-65536"}, BadValue{"MCCL_PORT_RANGE", "5-4"},
                    BadValue{"MCCL_PORT_RANGE", "1-2-3"}, BadValue{"MCCL_SOCKET_BUFFER", "K"},
                    BadValue{"MCCL_SOCKET_BUFFER", "-1"}, BadValue{"MCCL_SOCKET_BUFFER", "1.5M"},
                    BadValue{"MCCL_SOCKET_BUFFER", "2G"}, BadValue{"MCCL_SOCKET_BUFFER", "1T"},
                    BadValue{"MCCL_PARK_LIMIT", "99999999999999999999G"},
                    BadValue{"MCCL_PARK_LIMIT", "0"}, BadValue{"MCCL_TIMEOUT", "0"},
                    BadValue{"MCCL_TIMEOUT", "-3"}, BadValue{"MCCL_TIMEOUT", "nan"},
                    BadValue{"MCCL_TIMEOUT", "inf"}, BadValue{"MCCL_TIMEOUT", "5s"},
                    BadValue{"MCCL_PEER_TIMEOUT", "1e9"}, BadValue{"MCCL_ALGO_STRICT", "maybe"},
                    BadValue{"MCCL_DETERMINISTIC", "1"}, BadValue{"MCCL_PROFILE", "wan"},
                    BadValue{"MCCL_ALGO", " "}, BadValue{"MCCL_SWITCH", "rack 1"},
                    BadValue{"MCCL_UPLINK_PORTS", "-1"}, BadValue{"MCCL_UPLINK_PORTS", "4097"}));

TEST(Config, AnUnknownNameIsWarnedAboutWithTheNearest) {
  std::vector<std::string> warnings;
  const Environment environment = {
      {"MCCL_TIMOUT", "5"}, {"MCCL_LOG", "info"}, {"NCCL_DEBUG", "INFO"}, {"PATH", "/bin"}};
  EXPECT_TRUE(parse_config(environment, &warnings).is_ok());
  EXPECT_THAT(warnings,
              ElementsAre("MCCL_TIMOUT is not a setting of this version and has no effect; "
                          "the nearest is MCCL_TIMEOUT"));
}

TEST(Config, NamesOurEquivalentOfAnotherLibrarysSettings) {
  std::vector<std::string> warnings;
  const Environment environment = {{"RCCL_MSCCL_ENABLE", "1"}, {"MSCCL_SCHEDULER", "lib.so"}};
  EXPECT_TRUE(parse_config(environment, &warnings).is_ok());
  EXPECT_THAT(warnings,
              ElementsAre("MSCCL_SCHEDULER has no effect: programs are selected here by their size "
                          "windows and priorities; see mccl.explain()",
                          "RCCL_MSCCL_ENABLE has no effect: programs from files are on as soon as "
                          "MSCCL_XML_FILES, MSCCL_CONFIG or MCCL_ALGO_DIR name some; "
                          "MCCL_ALGO=^msccl turns them off"));
  EXPECT_EQ(parse({{"NCCL_PROTO", "Simple"}}).protocols, "simple");
  EXPECT_EQ(parse({{"MSCCL_ALGO_DIR", "d"}}).program_folder, "d");
}

TEST(Config, WarningsComeEvenWhenAValueIsBad) {
  std::vector<std::string> warnings;
  const Environment environment = {{"MCCL_LOGS", "info"}, {"MCCL_TIMEOUT", "x"}};
  EXPECT_FALSE(parse_config(environment, &warnings).is_ok());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("the nearest is MCCL_LOG")));
}

TEST(Config, JobTextHoldsTheJobSettingsAndNoLocalOnes) {
  EXPECT_EQ(job_settings_text(Config{}),
            "MCCL_ALGO=\nMCCL_ALGO_FIT=auto\nMCCL_ALGO_STRICT=0\nMCCL_ALGO_UNPROVEN=off\n"
            "MCCL_DETERMINISTIC=off\nMCCL_PARK_LIMIT=256M\nMCCL_PROFILE=auto\nMCCL_PROTO=\n"
            "MCCL_TOPOLOGY=\nMCCL_UPLINK_PORTS=0\n");
  EXPECT_EQ(job_settings_text(parse({{"MCCL_LOG", "debug"}, {"MCCL_TIMEOUT", "3"}})),
            job_settings_text(Config{}));
  EXPECT_NE(job_settings_text(parse({{"MCCL_ALGO", "ring"}})), job_settings_text(Config{}));
}

TEST(Config, EqualValuesInDifferentSpellingsGiveEqualJobTexts) {
  EXPECT_EQ(job_settings_text(parse({{"MCCL_PARK_LIMIT", "1024K"}, {"MCCL_ALGO", "RING , Tree"}})),
            job_settings_text(parse({{"MCCL_PARK_LIMIT", "1048576"}, {"MCCL_ALGO", "ring,tree"}})));
}

TEST(Config, WhatARowWritesItReadsBack) {
  const Config config = parse({{"MCCL_PORT_RANGE", "1-2"},
                               {"MCCL_SOCKET_BUFFER", "3K"},
                               {"MCCL_TIMEOUT", "0.25"},
                               {"MCCL_PEER_TIMEOUT", "1.005"},
                               {"MCCL_ALGO", "ring"},
                               {"MCCL_SOCKET_IFNAME", "eth*"},
                               {"MCCL_DETERMINISTIC", "canonical"},
                               {"MCCL_PROFILE", "lan"}});
  Environment written;
  for (const SettingRow& row : settings()) written.emplace_back(row.name, row.write(config));
  EXPECT_EQ(parse(written), config);
  const auto timeout =
      std::find_if(settings().begin(), settings().end(),
                   [](const SettingRow& row) { return row.name == "MCCL_TIMEOUT"; });
  EXPECT_EQ(timeout->write(config), "0.25");
}

TEST(Config, TheTableIsSortedByName) {
  std::vector<std::string_view> names;
  for (const SettingRow& row : settings()) names.push_back(row.name);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(Environment, HoldsOurVariablesAndNoOthers) {
  ASSERT_EQ(setenv("MCCL_LOG", "info=x", 1), 0);
  ASSERT_EQ(setenv("XMCCL_LOG", "no", 1), 0);
  bool has_ours = false;
  for (const auto& [name, value] : read_environment()) {
    EXPECT_NE(name, "XMCCL_LOG");
    if (name == "MCCL_LOG") has_ours = value == "info=x";
  }
  EXPECT_TRUE(has_ours);
  unsetenv("MCCL_LOG");
  unsetenv("XMCCL_LOG");
}

}  // namespace
}  // namespace mccl
