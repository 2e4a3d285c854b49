// The table of settings and its readers.
//
// A row says how its text is read and how its value is written; defaults are the field initialisers
// of Config, so they stand once. Everything that shows or compares settings walks the table.
// Tested by test/unit/base/config_test.cc; docs/settings.md is generated from it.
#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/nearest_name.h"

extern char** environ;  // NOLINT: declared by glibc, not by every libc

namespace mccl {
namespace {

constexpr int kPortMax = 65535;
constexpr int64_t kSocketBufferMax = int64_t{1} << 30;  // the kernel takes an int
constexpr int64_t kParkLimitMin = int64_t{1} << 16;     // two small messages per stream fit
constexpr int64_t kParkLimitMax = int64_t{1} << 40;
constexpr int kUplinkPortsMax = 4096;  // far above any switch
constexpr size_t kSwitchNameMax = 64;
constexpr double kSecondsMax = 1e7;  // about four months; far below what TimeNs can hold

constexpr std::array<std::string_view, 4> kProfileNames = {"auto", "loopback", "lan", "paper"};

// The whole of `text` as a number, or nothing.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string lower_case(std::string_view text) {
  std::string lower;
  for (const char letter : text)
    lower += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  return lower;
}

bool parse_bytes(std::string_view text, int64_t min, int64_t max, int64_t* bytes) {
  constexpr std::string_view kSuffixes = "KMG";
  int shift = 0;
  const size_t suffix = kSuffixes.find(static_cast<char>(text.back() & ~0x20));
  if (suffix != std::string_view::npos) {
    shift = 10 * (static_cast<int>(suffix) + 1);
    text.remove_suffix(1);
  }
  const std::optional<int64_t> count = parse_number<int64_t>(text);
  if (!count || *count < 0 || *count > (max >> shift) || (*count << shift) < min) return false;
  *bytes = *count << shift;
  return true;
}

std::string write_bytes(int64_t bytes) {
  constexpr std::array<std::string_view, 4> kSuffixes = {"", "K", "M", "G"};
  size_t suffix = 0;
  while (bytes != 0 && bytes % 1024 == 0 && suffix + 1 < kSuffixes.size()) {
    bytes /= 1024;
    ++suffix;
  }
  return std::to_string(bytes) + std::string(kSuffixes[suffix]);
}

bool parse_seconds(std::string_view text, TimeNs* time) {
  const std::optional<double> seconds = parse_number<double>(text);
  if (!seconds || !(*seconds >= 0.001 && *seconds <= kSecondsMax)) return false;
  *time = std::llround(*seconds * 1e3) * kNsPerMs;
  return true;
}

std::string write_seconds(TimeNs time) {
  std::string text = std::to_string(time / kNsPerSecond);
  const int64_t thousandths = time % kNsPerSecond / kNsPerMs;
  if (thousandths != 0) {
    text += '.' + std::to_string(1000 + thousandths).substr(1);
    while (text.back() == '0') text.pop_back();
  }
  return text;
}

bool parse_switch(std::string_view text, std::string_view on, bool* value) {
  const std::string lower = lower_case(text);
  const bool is_on = lower == on;
  if (!is_on && lower != "0" && lower != "off") return false;
  *value = is_on;
  return true;
}

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

bool parse_algorithms(std::string_view text, Config* config) {
  std::string list = lower_case(text);
  std::erase(list, ' ');
  const auto is_allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
           std::string_view("_,;:^").find(letter) != std::string_view::npos;
  };
  if (list.empty() || !std::all_of(list.begin(), list.end(), is_allowed)) return false;
  config->algorithms = list;
  return true;
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

SettingRow algorithm_row() {
  return {
      .name = "MCCL_ALGO",
      .type = "a comma list of algorithms (a leading ^ excludes them), or the name of a program",
      .unit = "",
      .scope = SettingScope::Job,
      .effect =
          "The algorithms that may be chosen, by full name (`all_reduce_ring`) or the part after "
          "the "
          "collective (`ring`). A collective of which the list names none is not restricted. "
          "Unset: "
          "all of them.",
      .fallbacks = {"NCCL_ALGO"},
      .parse = parse_algorithms,
      .write = [](const Config& config) { return config.algorithms; }};
}

SettingRow algorithm_strict_row() {
  return {
      .name = "MCCL_ALGO_STRICT",
      .type = "0 or 1",
      .unit = "",
      .scope = SettingScope::Job,
      .effect =
          "1: a call that nothing in MCCL_ALGO serves is an error. 0: another algorithm "
          "runs, and a notice says so.",
      .fallbacks = {},
      .parse = [](std::string_view text,
                  Config* config) { return parse_switch(text, "1", &config->is_algorithm_strict); },
      .write = [](const Config& config) { return config.is_algorithm_strict ? "1" : "0"; }};
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
                return parse_bytes(text, kParkLimitMin, kParkLimitMax, &config->park_limit_bytes);
              },
          .write = [](const Config& config) { return write_bytes(config.park_limit_bytes); }};
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

SettingRow socket_buffer_row() {
  return {.name = "MCCL_SOCKET_BUFFER",
          .type = "0 to 1G, with a suffix K, M or G or none",
          .unit = "bytes",
          .scope = SettingScope::Local,
          .effect =
              "The kernel's buffer for each direction of a connection. 0: the kernel's own "
              "tuning.",
          .fallbacks = {},
          .parse =
              [](std::string_view text, Config* config) {
                return parse_bytes(text, 0, kSocketBufferMax, &config->socket_buffer_bytes);
              },
          .write = [](const Config& config) { return write_bytes(config.socket_buffer_bytes); }};
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
              "rendezvous.",
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

std::string unknown_name_warning(const std::string& name) {
  std::vector<std::string_view> names;
  for (const SettingRow& row : settings()) names.push_back(row.name);
  return name + " is not a setting of this version and has no effect; the nearest is " +
         std::string(find_nearest_name(name, names));
}

const std::string* find_value(std::span<const std::pair<std::string, std::string>> environment,
                              std::string_view name) {
  for (const auto& [key, value] : environment)
    if (key == name && !value.empty()) return &value;
  return nullptr;
}

}  // namespace

std::string_view cost_profile_name(CostProfile profile) {
  return kProfileNames[static_cast<size_t>(profile)];
}

std::span<const SettingRow> settings() {
  static const std::vector<SettingRow> rows = {
      algorithm_row(), algorithm_strict_row(), deterministic_row(),    device_wait_row(),
      log_row(),       park_limit_row(),       peer_timeout_row(),     port_range_row(),
      profile_row(),   socket_buffer_row(),    socket_interface_row(), switch_row(),
      timeout_row(),   unified_row(),          uplink_ports_row()};
  return rows;
}

bool is_colour_allowed() {
  const char* const value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    for (const std::string_view prefix : {"MCCL_", "NCCL_", "GLOO_"}) {
      if (text.substr(0, prefix.size()) != prefix) continue;
      environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

Result<Config> parse_config(std::span<const std::pair<std::string, std::string>> environment,
                            std::vector<std::string>* warnings) {
  Config config;
  std::string faults;
  for (const SettingRow& row : settings()) {
    std::vector<std::string_view> names = {row.name};
    names.insert(names.end(), row.fallbacks.begin(), row.fallbacks.end());
    for (const std::string_view name : names) {
      const std::string* value = find_value(environment, name);
      if (value == nullptr) continue;
      if (!row.parse(*value, &config)) {
        if (!faults.empty()) faults += "; ";
        faults +=
            std::string(name) + "=" + *value + " is not allowed: give " + std::string(row.type);
      }
      break;
    }
  }
  if (warnings != nullptr) {
    for (const auto& [name, value] : environment) {
      const auto is_this = [&name = name](const SettingRow& row) { return row.name == name; };
      if (name.compare(0, 5, "MCCL_") != 0) continue;
      if (std::none_of(settings().begin(), settings().end(), is_this))
        warnings->push_back(unknown_name_warning(name));
    }
  }
  if (!faults.empty()) return Status(StatusCode::InvalidArgument, faults);
  return config;
}

std::string job_settings_text(const Config& config) {
  std::string text;
  for (const SettingRow& row : settings())
    if (row.scope == SettingScope::Job)
      text += std::string(row.name) + "=" + row.write(config) + "\n";
  return text;
}

}  // namespace mccl
