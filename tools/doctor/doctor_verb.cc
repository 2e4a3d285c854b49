#include "doctor/doctor_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "base/clock.h"
#include "base/config.h"
#include "doctor/doctor_session.h"
#include "doctor/doctor_text.h"
#include "doctor/host_check.h"
#include "doctor/host_list.h"

namespace mccl {
namespace {

constexpr double kTimeoutMaxS = 3600;
constexpr int kPortMax = 65535;

struct Options {
  std::string hosts;
  std::string self;
  int port = 29700;
  double timeout_s = 30;
};

ExitCode run_alone(Terminal& terminal) {
  std::vector<std::string> warnings;
  const Result<Config> config = parse_config(read_environment(), &warnings);
  if (!config.is_ok()) return report(terminal, "doctor", config.status());
  for (const std::string& warning : warnings) terminal.err << "mccl doctor: " << warning << "\n";
  const std::vector<CheckRow> rows = check_host(config.value());
  if (terminal.is_json)
    terminal.out << to_json_text(rows);
  else
    print_rows(rows, terminal);
  return std::all_of(rows.begin(), rows.end(), [](const CheckRow& row) { return row.is_ok; })
             ? ExitCode::Ok
             : ExitCode::No;
}

Result<SessionOptions> plan_session(const Options& options) {
  MCCL_RETURN_IF_ERROR(check_range("--port", options.port, 1, kPortMax));
  MCCL_RETURN_IF_ERROR(check_range("--timeout", options.timeout_s, 1, kTimeoutMaxS));
  SessionOptions session;
  session.host_list = options.hosts;
  session.port = static_cast<uint16_t>(options.port);
  session.timeout_ns = static_cast<TimeNs>(options.timeout_s * 1e9);
  const Result<std::vector<std::string>> names = parse_host_list(options.hosts);
  if (!names.is_ok()) return names.status();
  if (!options.self.empty() &&
      std::find(names.value().begin(), names.value().end(), options.self) == names.value().end())
    return wrong_usage(fmt::format("--self {} is none of --hosts {}", options.self, options.hosts));
  Result<std::vector<DoctorHost>> hosts = resolve_hosts(names.value(), &resolve_host);
  if (!hosts.is_ok()) return hosts.status();
  session.hosts = std::move(hosts).value();
  const Result<std::vector<InterfaceAddress>> interfaces = list_interfaces();
  if (!interfaces.is_ok()) return interfaces.status();
  const Result<size_t> self = find_self(session.hosts, interfaces.value(), options.self);
  if (!self.is_ok()) return self.status();
  session.self = self.value();
  Result<ListenPlace> place = choose_listen_place(session.hosts, session.self, interfaces.value());
  if (!place.is_ok()) return place.status();
  session.listen_place = std::move(place).value();
  return session;
}

ExitCode run_hosts(const Options& options, Terminal& terminal) {
  Result<SessionOptions> planned = plan_session(options);
  if (!planned.is_ok()) return report(terminal, "doctor", planned.status());
  SessionOptions session = std::move(planned).value();
  const std::string& own_name = session.hosts[session.self].name;
  terminal.err << fmt::format(
      "mccl doctor: {} listens at {} port {} while this runs; what is said there is neither "
      "authenticated nor encrypted\n",
      own_name, session.listen_place.address, session.port);
  session.notice = [&](const std::string& text) {
    terminal.err << "mccl doctor: " << text << "\n" << std::flush;
  };
  if (terminal.shows_progress)
    session.progress = [&](const std::string& text) {
      terminal.err << "\r\x1b[K" << text << std::flush;
    };
  const Result<SessionResult> result = run_session(session, SystemClock());
  if (terminal.shows_progress) terminal.err << "\r\x1b[K";
  if (!result.is_ok()) return report(terminal, "doctor", result.status());
  const SessionResult& made = result.value();
  if (!made.report)
    terminal.err << fmt::format("mccl doctor: {}, the first of --hosts, has the report\n",
                                session.hosts.front().name);
  else if (terminal.is_json)
    terminal.out << to_json_text(*made.report, made.findings, made.code);
  else
    print_report(*made.report, made.findings, terminal);
  return made.code;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--hosts", options->hosts,
                 "The hosts, alike and in one order on all of them; the first one reports. Without "
                 "it, this host alone is looked at");
  app.add_option("--port", options->port, "Where every host listens (default: 29700)");
  app.add_option("--self", options->self,
                 "Which of --hosts this one is (default: the one with an address of this host)");
  app.add_option("--timeout", options->timeout_s,
                 "How many seconds the hosts wait for each other (default: 30)");
  return [options](Terminal& terminal) {
    if (!options->hosts.empty()) return run_hosts(*options, terminal);
    if (!options->self.empty())
      return report(terminal, "doctor", wrong_usage("--self says which of --hosts this one is"));
    return run_alone(terminal);
  };
}

}  // namespace

const Verb kDoctorVerb = {.name = "doctor",
                          .summary = "who reaches whom, how fast, and what to do about the rest",
                          .example =
                              "  mccl doctor\n"
                              "  for host in a b c; do ssh $host mccl doctor --hosts a,b,c & done; "
                              "wait",
                          .declare = &declare};

}  // namespace mccl
