// Every setting of mccl. A Config is a plain value; the environment is read in one place
// (read_environment) and interpreted by a pure function, so that two communicators of one process
// may run with different settings and tests need no environment.
//
// Adding a setting: a documented field here and a row in the table of config.cc. docs/settings.md
// is generated from the table (`make docs`).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "mccl/status.h"

namespace mccl {

// Where the cost model takes its figures from.
enum class CostProfile : uint8_t {
  Auto,      // by the kind of link between the ranks
  Loopback,  // all ranks on one host
  Lan,       // hosts on an Ethernet
  Paper,     // the rule and the figures of the MCCL paper
};

std::string_view cost_profile_name(CostProfile profile);

// The value of Config::dump_directory that turns dumps off.
constexpr std::string_view kDumpsOff = "off";

struct Config {
  // Which interface or address peers use; transport/interfaces.h has the syntax. Empty: chosen.
  std::string socket_interfaces;
  // Ports that a listener may take, both ends included. 0 and 0: any free port.
  int port_first = 0;
  int port_last = 0;
  // Kernel buffer of each direction of a connection, in bytes. 0: the kernel's own tuning.
  int64_t socket_buffer_bytes = 0;
  // Most bytes that a communicator may hold for operations that are not posted here yet.
  int64_t park_limit_bytes = int64_t{256} << 20;
  // Algorithms that may be chosen: a list or a program's name, in lower case. Empty: all.
  std::string algorithms;
  // A call that none of `algorithms` serves is an error instead of a fallback with a notice.
  bool is_algorithm_strict = false;
  // Programs from files: a colon list of files, a file that lists them, a folder. Empty: none.
  std::string program_files;
  std::string program_list_file;
  std::string program_folder;
  // A program from a file serves only calls that it fits as it is (MCCL_ALGO_FIT=strict).
  bool is_fit_strict = false;
  // A program that computes something else than its collective runs all the same.
  bool allows_unproven = false;
  // Protocols of programs from files: a comma list in lower case, a leading ^ excludes. Empty: all.
  std::string protocols;
  // What the machines are called in programs that name a topology. Empty: such programs do not run.
  std::string topology_name;
  // Only programs that reduce in rank order: bits do not depend on size, tuning or algorithm.
  bool is_canonical_order = false;
  // Deadline of an operation where the caller gives none, and of the rendezvous.
  TimeNs timeout_ns = 1800 * kNsPerSecond;
  // How long a peer's host may be silent before it counts as lost.
  TimeNs peer_timeout_ns = 10 * kNsPerSecond;
  // How long a device's stream may wait for a collective. 0: the host waits instead.
  TimeNs device_wait_ns = 4 * kNsPerSecond;
  // Memory that CPU and device share is used in place; false: through copies.
  bool is_unified_in_place = true;
  LogLevel log_level = LogLevel::Info;  // one start-up line and notices
  // Where this process writes its last operations when a communicator fails. Empty: a directory of
  // this user's own under the system's temporary one; kDumpsOff: nowhere.
  std::string dump_directory;
  CostProfile cost_profile = CostProfile::Auto;
  // What the processes of a job prove to each other that they hold; read_secret() in secret.h.
  std::string secret;
  std::string secret_file;
  // The switch that this rank's host stands at. Empty: all ranks stand at one.
  std::string switch_name;
  // What a switch's uplink carries in each direction, in ports of a host. 0: it is never the limit.
  int uplink_ports = 0;

  bool operator==(const Config&) const = default;
};

// Job: every rank must have the same value, which is checked at the rendezvous; a secret is proven
// when processes connect. Local: each rank its own.
enum class SettingScope : uint8_t { Job, Local };

// One setting. The table is the source of parsing, of comparing and of the documentation.
struct SettingRow {
  std::string_view name;  // "MCCL_TIMEOUT"
  std::string_view type;  // what is allowed, as error messages and the documentation say it
  std::string_view unit;  // empty when it has none
  SettingScope scope;
  std::string_view effect;
  std::vector<std::string_view> fallbacks;  // foreign variables, first one set wins
  // False when `text` is not allowed; `config` is untouched then. `text` is never empty.
  std::function<bool(std::string_view text, Config* config)> parse;
  // The canonical text of the value; parse accepts it unless it is empty.
  std::function<std::string(const Config& config)> write;
  // The value is shown to nobody.
  bool is_secret = false;
};

// All settings, by name.
std::span<const SettingRow> settings();

// The value as people may see it: that of a secret is "(set)", or empty.
std::string write_shown_value(const SettingRow& row, const Config& config);

// Names and values as they stand in an environment.
using Environment = std::vector<std::pair<std::string, std::string>>;
using EnvironmentView = std::span<const std::pair<std::string, std::string>>;

// Which variable a setting takes its value from: its own, or a foreign one. Both empty: it has its
// default. The texts are the environment's and the table's.
struct SettingSource {
  std::string_view variable;
  std::string_view text;
};
SettingSource find_source(const SettingRow& row, EnvironmentView environment);

// A name that begins with MCCL_ and is no setting, and the setting that may have been meant.
struct UnknownSetting {
  std::string name;
  std::string_view nearest;
};
std::vector<UnknownSetting> find_unknown_settings(EnvironmentView environment);

// The variables of this process that can matter here (MCCL_, NCCL_, GLOO_, MSCCL_ and RCCL_
// names). The only
// reader of the environment; not to be called while another thread changes it.
Environment read_environment();

// What a launcher (torchrun, mpirun, another one that speaks PMI) says of this process and its
// rendezvous; for tools, which are started without torch. Otherwise as read_environment().
Environment read_launch_environment();

// Where this user's temporary files go: TMPDIR, else /tmp.
std::string temporary_directory();

// Whether tools may colour what they print on a terminal: NO_COLOR is unset or empty.
bool is_colour_allowed();

// Variables of other libraries that run such programs, and have no effect here: each with what to
// use instead, as one line.
std::vector<std::string> describe_foreign_settings(EnvironmentView environment);

// Pure. An empty value is like none. All values that are not allowed are one InvalidArgument, which
// names each variable, its value and what is allowed. Each unknown MCCL_ name, and
// each of describe_foreign_settings(), adds one line to `warnings` (may be null).
Result<Config> parse_config(EnvironmentView environment, std::vector<std::string>* warnings);

// The job-scoped settings, one "NAME=value" per line in table order: equal texts, equal settings.
// Without secrets.
std::string job_settings_text(const Config& config);

}  // namespace mccl
