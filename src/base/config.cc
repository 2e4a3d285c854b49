// The table of settings and its readers.
//
// A row says how its text is read and how its value is written; defaults are the field initialisers
// of Config, so they stand once. Everything that shows or compares settings walks the table.
// Tested by test/unit/base/config_test.cc; docs/settings.md is generated from it.
#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/nearest_name.h"
#include "base/program_settings.h"
#include "base/secret.h"
#include "base/setting_text.h"

extern char** environ;  // NOLINT: declared by glibc, not by every libc

namespace mccl {
namespace {

constexpr int kPortMax = 65535;
constexpr int64_t kSocketBufferMax = int64_t{1} << 30;  // the kernel takes an int
constexpr int64_t kParkLimitMin = int64_t{1} << 16;     // two small messages per stream fit
constexpr int64_t kParkLimitMax = int64_t{1} << 40;
constexpr int kUplinkPortsMax = 4096;  // far above any switch
constexpr size_t kSwitchNameMax = 64;

constexpr std::array<std::string_view, 4> kProfileNames = {"auto", "loopback", "lan", "paper"};

bool parse_port_range(std::string_view text, Config* config) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  const std::optional<int> first = parse_number<int>(text.substr(0, dash));
  const std::optional<int> last = parse_number<int>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *first > *last || *last > kPortMax) return false;
  config->port_first = *first;
  config->port_last = *last;
  return true;
}

std::string write_port_range(const Config& config) {
  if (config.port_first == 0) return "";
  return std::to_string(config.port_first) + "-" + std::to_string(config.port_last);
}

bool parse_log_level(std::string_view text, Config* config) {
  const std::string lower = lower_case(text);
  for (const LogLevel level :
       {LogLevel::Error, LogLevel::Warning, LogLevel::Info, LogLevel::Debug}) {
    if (lower != log_level_name(level)) continue;
    config->log_level = level;
    return true;
  }
  return false;
}

bool parse_profile(std::string_view text, Config* config) {
  const auto found = std::find(kProfileNames.begin(), kProfileNames.end(), lower_case(text));
  if (found == kProfileNames.end()) return false;
  config->cost_profile = static_cast<CostProfile>(found - kProfileNames.begin());
  return true;
}

SettingRow deterministic_row() {
  return {.name = "MCCL_DETERMINISTIC",
          .type = "canonical or off",
          .unit = "",
          .scope = SettingScope::Job,
          .effect =
              "canonical: every reduction adds in rank order, so that the bits of a result do "
              "not depend on size, tuning or algorithm. All ranks have equal bits either way.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                return parse_switch(text, "canonical", &config->is_canonical_order);
              },
          .write =
              [](const Config& config) { return config.is_canonical_order ? "canonical" : "off"; }};
}

SettingRow dump_directory_row() {
  return {.name = "MCCL_DUMP_DIR",
          .type = "a directory, or off",
          .unit = "",
          .scope = SettingScope::Local,
          .effect =
              "Where a rank writes its last operations when a communicator fails, and on SIGUSR1 "
              "(`mccl dump`). Unset: `mccl-UID` under the system's temporary directory, for this "
              "user's eyes only. off: nowhere.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                config->dump_directory = text;
                return true;
              },
          .write = [](const Config& config) { return config.dump_directory; }};
}

SettingRow log_row() {
  return {
      .name = "MCCL_LOG",
      .type = "error, warning, info or debug",
      .unit = "",
      .scope = SettingScope::Local,
      .effect = "What is written to standard error: this level and all that is more severe.",
      .fallbacks = {},
      .parse = parse_log_level,
      .write = [](const Config& config) { return std::string(log_level_name(config.log_level)); }};
}

SettingRow device_wait_row() {
  return {
      .name = "MCCL_DEVICE_WAIT",
      .type = "a number from 0 to 10000000",
      .unit = "seconds",
      .scope = SettingScope::Local,
      .effect =
          "How long the stream of a device may wait for collectives of which none is completed, "
          "before the communicator fails; some devices end a long wait themselves and go on with "
          "wrong data. 0: wait() blocks the host instead, without a limit.",
      .fallbacks = {},
      .parse =
          [](std::string_view text, Config* config) {
            if (text == "0") {
              config->device_wait_ns = 0;
              return true;
            }
            return parse_seconds(text, &config->device_wait_ns);
          },
      .write =
          [](const Config& config) {
            return config.device_wait_ns == 0 ? "0" : write_seconds(config.device_wait_ns);
          }};
}

SettingRow park_limit_row() {
  return {.name = "MCCL_PARK_LIMIT",
          .type = "64K to 1024G, with a suffix K, M or G or none",
          .unit = "bytes",
          .scope = SettingScope::Job,
          .effect =
              "The most that a communicator holds for operations that other ranks have started "
              "and this one has not. Plans that need more get smaller slices.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                return parse_byte_count(text, kParkLimitMin, kParkLimitMax,
                                        &config->park_limit_bytes);
              },
          .write = [](const Config& config) { return write_byte_count(config.park_limit_bytes); }};
}

SettingRow peer_timeout_row() {
  return {.name = "MCCL_PEER_TIMEOUT",
          .type = "a number from 0.001 to 10000000",
          .unit = "seconds",
          .scope = SettingScope::Local,
          .effect = "How long the host of a peer may be silent before the peer counts as lost.",
          .fallbacks = {},
          .parse = [](std::string_view text,
                      Config* config) { return parse_seconds(text, &config->peer_timeout_ns); },
          .write = [](const Config& config) { return write_seconds(config.peer_timeout_ns); }};
}

SettingRow port_range_row() {
  return {
      .name = "MCCL_PORT_RANGE",
      .type = "FIRST-LAST, both from 1 to 65535",
      .unit = "",
      .scope = SettingScope::Local,
      .effect = "The ports that this rank may listen on: the first free one is taken. Unset: any.",
      .fallbacks = {},
      .parse = parse_port_range,
      .write = write_port_range};
}

SettingRow profile_row() {
  return {.name = "MCCL_PROFILE",
          .type = "auto, loopback, lan or paper",
          .unit = "",
          .scope = SettingScope::Job,
          .effect =
              "The figures of latency and bandwidth by which algorithms are chosen. paper: the "
              "rule of the MCCL paper.",
          .fallbacks = {},
          .parse = parse_profile,
          .write = [](const Config& config) {
            return std::string(cost_profile_name(config.cost_profile));
          }};
}

SettingRow secret_row() {
  return {.name = "MCCL_SECRET",
          .type = "a text of at most 1024 bytes",
          .unit = "",
          .scope = SettingScope::Job,
          .effect =
              "Processes connect only to those that hold the same secret, which each proves "
              "without sending it. Unset: whoever can read the rendezvous can connect.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                if (text.size() > kSecretBytesMax) return false;
                config->secret = text;
                return true;
              },
          .write = [](const Config& config) { return config.secret; },
          .is_secret = true};
}

SettingRow secret_file_row() {
  return {.name = "MCCL_SECRET_FILE",
          .type = "a path",
          .unit = "",
          .scope = SettingScope::Local,
          .effect =
              "A file whose first line is MCCL_SECRET. It is refused when anybody but its owner "
              "has access to it.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                config->secret_file = text;
                return true;
              },
          .write = [](const Config& config) { return config.secret_file; }};
}

SettingRow socket_buffer_row() {
  return {
      .name = "MCCL_SOCKET_BUFFER",
      .type = "0 to 1G, with a suffix K, M or G or none",
      .unit = "bytes",
      .scope = SettingScope::Local,
      .effect =
          "The kernel's buffer for each direction of a connection. 0: the kernel's own "
          "tuning.",
      .fallbacks = {},
      .parse =
          [](std::string_view text, Config* config) {
            return parse_byte_count(text, 0, kSocketBufferMax, &config->socket_buffer_bytes);
          },
      .write = [](const Config& config) { return write_byte_count(config.socket_buffer_bytes); }};
}

SettingRow socket_interface_row() {
  return {.name = "MCCL_SOCKET_IFNAME",
          .type =
              "a comma list of interface names, globs, =exact names, addresses and CIDR blocks; a "
              "leading ^ excludes them",
          .unit = "",
          .scope = SettingScope::Local,
          .effect =
              "The interface that peers use to reach this rank. Unset: the one that leads to "
              "the rendezvous.",
          .fallbacks = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"},
          .parse =
              [](std::string_view text, Config* config) {
                config->socket_interfaces = text;
                return true;
              },
          .write = [](const Config& config) { return config.socket_interfaces; }};
}

bool parse_switch_name(std::string_view text, Config* config) {
  const bool is_printable = std::all_of(text.begin(), text.end(),
                                        [](char letter) { return letter > ' ' && letter <= '~'; });
  if (!is_printable || text.size() > kSwitchNameMax) return false;
  config->switch_name = text;
  return true;
}

SettingRow switch_row() {
  return {.name = "MCCL_SWITCH",
          .type = "a name of at most 64 printable characters without blanks",
          .unit = "",
          .scope = SettingScope::Local,
          .effect =
              "The network switch that this rank's host is plugged into: equal names, one switch. "
              "All ranks name one, or none does. Unset: all stand at one switch.",
          .fallbacks = {},
          .parse = parse_switch_name,
          .write = [](const Config& config) { return config.switch_name; }};
}

SettingRow uplink_ports_row() {
  return {.name = "MCCL_UPLINK_PORTS",
          .type = "0 to 4096",
          .unit = "ports",
          .scope = SettingScope::Job,
          .effect =
              "How many hosts at full speed the uplink of a switch (MCCL_SWITCH) carries in each "
              "direction; algorithms are chosen by it. 0: as many as there are.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                const std::optional<int> ports = parse_number<int>(text);
                if (!ports || *ports < 0 || *ports > kUplinkPortsMax) return false;
                config->uplink_ports = *ports;
                return true;
              },
          .write = [](const Config& config) { return std::to_string(config.uplink_ports); }};
}

SettingRow timeout_row() {
  return {.name = "MCCL_TIMEOUT",
          .type = "a number from 0.001 to 10000000",
          .unit = "seconds",
          .scope = SettingScope::Local,
          .effect =
              "The deadline of an operation for which the caller gives none, and of the "
              "rendezvous. Of torch's groups: of those that are made with torch's default of 30 "
              "minutes.",
          .fallbacks = {},
          .parse = [](std::string_view text,
                      Config* config) { return parse_seconds(text, &config->timeout_ns); },
          .write = [](const Config& config) { return write_seconds(config.timeout_ns); }};
}

SettingRow unified_row() {
  return {
      .name = "MCCL_UNIFIED_COLLECTIVE",
      .type = "0 or 1",
      .unit = "",
      .scope = SettingScope::Local,
      .effect =
          "1: memory that CPU and device share is reduced in place. 0: through copies, as "
          "memory out of the CPU's reach is; each is counted.",
      .fallbacks = {},
      .parse =
          [](std::string_view text, Config* config) {
            if (text != "0" && text != "1") return false;
            config->is_unified_in_place = text == "1";
            return true;
          },
      .write =
          [](const Config& config) { return std::string(config.is_unified_in_place ? "1" : "0"); }};
}

constexpr std::array<std::string_view, 12> kLaunchVariables = {"MASTER_ADDR",
                                                               "MASTER_PORT",
                                                               "RANK",
                                                               "WORLD_SIZE",
                                                               "LOCAL_WORLD_SIZE",
                                                               "TORCHELASTIC_USE_AGENT_STORE",
                                                               "OMPI_COMM_WORLD_RANK",
                                                               "OMPI_COMM_WORLD_SIZE",
                                                               "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                               "PMI_RANK",
                                                               "PMI_SIZE",
                                                               "MPI_LOCALNRANKS"};

template <class IsWanted>
Environment read_variables(IsWanted is_wanted) {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !is_wanted(text.substr(0, equals))) continue;
    environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace

std::string_view cost_profile_name(CostProfile profile) {
  return kProfileNames[static_cast<size_t>(profile)];
}

std::span<const SettingRow> settings() {
  static const std::vector<SettingRow> rows = [] {
    std::vector<SettingRow> all = {
        deterministic_row(), device_wait_row(),  dump_directory_row(), log_row(),
        park_limit_row(),    peer_timeout_row(), port_range_row(),     profile_row(),
        secret_row(),        secret_file_row(),  socket_buffer_row(),  socket_interface_row(),
        switch_row(),        timeout_row(),      unified_row(),        uplink_ports_row()};
    for (SettingRow& row : program_setting_rows()) all.push_back(std::move(row));
    std::sort(all.begin(), all.end(), [](const SettingRow& left, const SettingRow& right) {
      return left.name < right.name;
    });
    return all;
  }();
  return rows;
}

std::string write_shown_value(const SettingRow& row, const Config& config) {
  std::string value = row.write(config);
  return row.is_secret && !value.empty() ? "(set)" : value;
}

std::string temporary_directory() {
  const char* const value = std::getenv("TMPDIR");
  return value == nullptr || *value != '/' ? "/tmp" : value;
}

bool is_colour_allowed() {
  const char* const value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

Environment read_environment() {
  return read_variables([](std::string_view name) {
    constexpr std::array<std::string_view, 5> kPrefixes = {"MCCL_", "NCCL_", "GLOO_", "MSCCL_",
                                                           "RCCL_"};
    return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                       [name](std::string_view prefix) { return name.starts_with(prefix); });
  });
}

Environment read_launch_environment() {
  return read_variables([](std::string_view name) {
    return std::find(kLaunchVariables.begin(), kLaunchVariables.end(), name) !=
           kLaunchVariables.end();
  });
}

SettingSource find_source(const SettingRow& row, EnvironmentView environment) {
  std::vector<std::string_view> names = {row.name};
  names.insert(names.end(), row.fallbacks.begin(), row.fallbacks.end());
  for (const std::string_view name : names)
    for (const auto& [key, value] : environment)
      if (key == name && !value.empty()) return {name, value};
  return {};
}

std::vector<UnknownSetting> find_unknown_settings(EnvironmentView environment) {
  std::vector<std::string_view> names;
  for (const SettingRow& row : settings()) names.push_back(row.name);
  std::vector<UnknownSetting> unknown;
  for (const auto& [name, value] : environment)
    if (name.starts_with("MCCL_") && std::find(names.begin(), names.end(), name) == names.end())
      unknown.push_back({name, find_nearest_name(name, names)});
  return unknown;
}

Result<Config> parse_config(EnvironmentView environment, std::vector<std::string>* warnings) {
  Config config;
  std::string faults;
  for (const SettingRow& row : settings()) {
    const auto [variable, text] = find_source(row, environment);
    if (variable.empty() || row.parse(text, &config)) continue;
    if (!faults.empty()) faults += "; ";
    faults += std::string(variable) + "=" + (row.is_secret ? "..." : std::string(text)) +
              " is not allowed: give " + std::string(row.type);
  }
  if (warnings != nullptr)
    for (const UnknownSetting& unknown : find_unknown_settings(environment))
      warnings->push_back(unknown.name +
                          " is not a setting of this version and has no effect; the nearest is " +
                          std::string(unknown.nearest));
  if (warnings != nullptr)
    for (std::string& line : describe_foreign_settings(environment))
      warnings->push_back(std::move(line));
  if (!faults.empty()) return Status(StatusCode::InvalidArgument, faults);
  return config;
}

std::string job_settings_text(const Config& config) {
  std::string text;
  for (const SettingRow& row : settings())
    if (row.scope == SettingScope::Job && !row.is_secret)
      text += std::string(row.name) + "=" + row.write(config) + "\n";
  return text;
}

}  // namespace mccl
