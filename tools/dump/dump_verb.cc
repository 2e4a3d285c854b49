#include "dump/dump_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "dump/dump_reader.h"
#include "dump/dump_request.h"
#include "dump/wait_report.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMessagesShownMax = 16;

struct Options {
  std::vector<std::string> sources;
  std::string directory;
};

std::optional<int64_t> parse_pid(const std::string& text) {
  int64_t pid = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || stop != text.data() + text.size() || pid < 1) return std::nullopt;
  return pid;
}

Json to_json(const WaitReport& report) {
  Json json = {{"verb", "dump"},
               {"is_anybody_behind", report.is_anybody_behind()},
               {"communicators", Json::array()},
               {"circle", report.circle}};
  for (const CommunicatorReport& communicator : report.communicators) {
    Json entry = {{"id", communicator.id},
                  {"name", communicator.name},
                  {"ranks", Json::array()},
                  {"behind", Json::array()},
                  {"messages", Json::array()}};
    for (const RankRow& row : communicator.rows) {
      Json rank = {
          {"rank", row.rank}, {"host", row.host}, {"pid", row.pid}, {"has_dump", row.has_dump}};
      if (row.has_dump) {
        rank["operations_posted"] = row.posted_count;
        rank["operations_completed"] = row.completed_count;
        rank["call"] = row.call;
        rank["state"] = row.state;
        rank["waits_for"] = row.waits_for;
        rank["failure"] = row.failure;
        rank["held_up_by"] = row.held_up_by;
      }
      entry["ranks"].push_back(std::move(rank));
    }
    for (const MissingCall& missing : communicator.missing)
      entry["behind"].push_back({{"rank", missing.rank},
                                 {"has_dump", missing.has_dump},
                                 {"sequence", missing.sequence},
                                 {"call", missing.call},
                                 {"waiters", missing.waiters},
                                 {"text", to_text(missing)}});
    for (const MissingMessage& missing : communicator.messages)
      entry["messages"].push_back({{"rank", missing.rank},
                                   {"peer", missing.peer},
                                   {"kind", missing.is_send ? "send" : "recv"},
                                   {"tag", missing.tag},
                                   {"text", to_text(missing)}});
    json["communicators"].push_back(std::move(entry));
  }
  return json;
}

void print_rows(const CommunicatorReport& communicator, std::ostream& out) {
  size_t host_width = 4, call_width = 4, state_width = 5;
  for (const RankRow& row : communicator.rows) {
    host_width = std::max(host_width, row.host.size());
    call_width = std::max(call_width, row.call.size());
    state_width = std::max(state_width, row.state.size());
  }
  const auto print = [&](const auto& rank, const std::string& host, const auto& pid,
                         const auto& posted, const auto& completed, const std::string& call,
                         const std::string& state, const std::string& waits_for) {
    std::string line =
        fmt::format("{:>6}  {:<{}} {:>8} {:>7} {:>9}  {:<{}}  {:<{}}  {}", rank, host, host_width,
                    pid, posted, completed, call, call_width, state, state_width, waits_for);
    while (line.back() == ' ') line.pop_back();
    out << line << "\n";
  };
  print("rank", "host", "pid", "posted", "completed", "call", "state", "waits for");
  for (const RankRow& row : communicator.rows)
    if (row.has_dump)
      print(row.rank, row.host, row.pid, row.posted_count, row.completed_count, row.call, row.state,
            row.waits_for);
    else
      print(row.rank, row.host, row.pid, "-", "-", "no dump", "", "");
}

void print(const WaitReport& report, Terminal& terminal) {
  std::ostream& out = terminal.out;
  for (const CommunicatorReport& communicator : report.communicators) {
    out << terminal.bold(fmt::format("{}, {} rank{}", communicator.name, communicator.rows.size(),
                                     communicator.rows.size() == 1 ? "" : "s"))
        << "\n";
    print_rows(communicator, out);
    for (const RankRow& row : communicator.rows) {
      if (!row.failure.empty()) out << fmt::format("  rank {} failed: {}\n", row.rank, row.failure);
      if (!row.held_up_by.empty())
        out << fmt::format("  rank {} was told: {}\n", row.rank, row.held_up_by);
    }
    for (const MissingCall& missing : communicator.missing)
      out << "  " << terminal.bold(to_text(missing)) << "\n";
    for (size_t index = 0; index < communicator.messages.size(); ++index) {
      if (index == kMessagesShownMax) {
        out << fmt::format("  and {} more messages; --json has all\n",
                           communicator.messages.size() - index);
        break;
      }
      out << "  " << to_text(communicator.messages[index]) << "\n";
    }
  }
  if (!report.circle.empty()) out << terminal.bold("a circle of waits:") << "\n";
  for (const std::string& sentence : report.circle) out << "  " << sentence << "\n";
  if (!report.is_anybody_behind()) out << "nobody is behind\n";
}

Result<std::string> read_source(const std::string& source, const Options& options,
                                Terminal& terminal) {
  const std::optional<int64_t> pid = parse_pid(source);
  if (!pid) return read_whole_file(source, &std::cin);
  const Result<DumpAnswer> answer =
      request_dump({.pid = *pid, .directory = options.directory}, SystemClock());
  if (!answer.is_ok()) return answer.status();
  terminal.err << fmt::format("mccl dump: {}\n", answer.value().path);
  return answer.value().text;
}

// A source that gives nothing is told of, and the others serve: the process that does not answer is
// often the one that the others wait for.
ExitCode run(const Options& options, Terminal& terminal) {
  std::vector<DumpedProcess> processes;
  std::optional<ExitCode> failure;
  for (const std::string& source : options.sources) {
    const Result<std::string> text = read_source(source, options, terminal);
    if (text.is_ok() && options.sources.size() == 1 && parse_pid(source)) {
      terminal.out << text.value();
      return ExitCode::Ok;
    }
    Result<DumpedProcess> process =
        text.is_ok() ? parse_dump(text.value(), source) : Result<DumpedProcess>(text.status());
    if (process.is_ok()) {
      processes.push_back(std::move(process).value());
      continue;
    }
    const ExitCode code = report(terminal, "dump", process.status());
    if (!failure) failure = code;
  }
  if (processes.empty()) return *failure;
  const WaitReport made = make_wait_report(std::move(processes));
  if (terminal.is_json)
    terminal.out << to_json(made).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  else
    print(made, terminal);
  if (failure) return *failure;
  return made.is_anybody_behind() ? ExitCode::No : ExitCode::Ok;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("SOURCE", options->sources,
                 "The pid of a process of this machine, or files that processes wrote; of one pid "
                 "the dump itself is printed, of more sources who waits for whom")
      ->required();
  app.add_option("--dir", options->directory,
                 "Where the processes write (default: as their MCCL_DUMP_DIR says)");
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kDumpVerb = {.name = "dump",
                        .summary = "the last operations of a process; who waits for whom",
                        .example =
                            "  mccl dump 4711\n"
                            "  mccl dump /tmp/mccl-1000/*.json",
                        .declare = &declare};

}  // namespace mccl
