#include "show/show_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "base/dtype.h"
#include "check/file_report.h"
#include "ir/xml.h"
#include "show/program_summary.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string file;
  std::optional<int> rank;  // --rank; none: the summary
};

const char* dialect_name(XmlDialect dialect) {
  return dialect == XmlDialect::Mccl ? "mccl" : "msccl";
}

std::string protocol_text(ProgramProtocol protocol) {
  return fmt::format("{}: here the path of {} messages", mccl_protocol_name(protocol),
                     protocol == ProgramProtocol::Simple ? "large" : "small");
}

std::string scratch_text(const ProgramSummary& summary) {
  if (summary.scratch_chunks == 0) return "none";
  std::string text =
      fmt::format("{} chunk{} where the larger buffer has {}: {:.3f} of it", summary.scratch_chunks,
                  summary.scratch_chunks == 1 ? "" : "s", summary.size_chunks,
                  static_cast<double>(summary.scratch_chunks) / summary.size_chunks);
  if (summary.scratch_bytes >= 0)
    text += fmt::format(", {} bytes for the largest call", summary.scratch_bytes);
  return text;
}

void print(const Options& options, const XmlReadResult& read, Terminal& terminal) {
  const Program& program = read.program;
  const ProgramUse& use = read.use;
  const ProgramSummary summary = summarize(program, use);
  const auto row = [&](const char* name, const std::string& text) {
    terminal.out << fmt::format("  {:<12} {}\n", name, text);
  };
  terminal.out << terminal.bold(options.file)
               << fmt::format(": \"{}\", {}'s dialect\n", program.name, dialect_name(read.dialect));
  row("call", describe_call(program));
  row("sizes", describe_window(use));
  row("protocol", protocol_text(use.protocol));
  if (use.priority != 0) row("priority", std::to_string(use.priority));
  if (!use.topology.empty()) row("topology", use.topology);
  if (use.version != 0) row("version", std::to_string(use.version));
  row("lanes", fmt::format("{}, at most {} on a rank", summary.lanes, summary.lanes_of_rank));
  row("channels", std::to_string(summary.channels));
  std::string steps = fmt::format("{}, at most {} in a lane", summary.steps, summary.steps_of_lane);
  const char* separator = ": ";
  for (const auto& [opcode, count] : summary.steps_by_opcode) {
    steps += fmt::format("{}{} {}", separator, count, opcode);
    separator = ", ";
  }
  row("steps", steps);
  row("waits", fmt::format("{} on steps of other lanes", summary.dependences));
  row("largest step",
      fmt::format("{} chunk{}", summary.largest_count, summary.largest_count == 1 ? "" : "s"));
  row("scratch", scratch_text(summary));
}

Json to_json(const Options& options, const XmlReadResult& read) {
  const Program& program = read.program;
  const ProgramUse& use = read.use;
  const ProgramSummary summary = summarize(program, use);
  Json steps = Json::object();
  for (const auto& [opcode, count] : summary.steps_by_opcode) steps[std::string(opcode)] = count;
  Json json = {{"verb", "show"},
               {"file", options.file},
               {"dialect", dialect_name(read.dialect)},
               {"name", program.name},
               {"collective", collective_name(program.collective)},
               {"ranks", program.rank_count()},
               {"chunks", program.chunk_count},
               {"claims_in_place", program.in_place},
               {"claims_out_of_place", program.out_of_place},
               {"min_bytes", use.begin_bytes},
               {"max_bytes", nullptr},
               {"protocol", mccl_protocol_name(use.protocol)},
               {"priority", use.priority},
               {"topology", use.topology},
               {"version", use.version},
               {"lanes", summary.lanes},
               {"lanes_of_rank", summary.lanes_of_rank},
               {"channels", summary.channels},
               {"steps", summary.steps},
               {"steps_of_lane", summary.steps_of_lane},
               {"steps_by_opcode", std::move(steps)},
               {"dependences", summary.dependences},
               {"largest_count", summary.largest_count},
               {"scratch_chunks", summary.scratch_chunks},
               {"size_chunks", summary.size_chunks},
               {"scratch_bytes", nullptr}};
  if (use.end_bytes != ProgramUse::kEndless) json["max_bytes"] = use.end_bytes - 1;
  if (summary.scratch_bytes >= 0) json["scratch_bytes"] = summary.scratch_bytes;
  return json;
}

ExitCode run(const Options& options, Terminal& terminal) {
  const Result<std::string> text = read_whole_file(options.file, &std::cin);
  if (!text.is_ok()) return report(terminal, "show", text.status());
  const XmlReadResult read = read_xml(text.value());
  if (!read.is_ok()) {
    terminal.err << read.to_string(options.file) << "\n";
    return ExitCode::No;
  }
  if (options.rank) {
    const Status in_range = check_range("--rank", *options.rank, 0, read.program.rank_count() - 1);
    if (!in_range.is_ok()) return report(terminal, "show", in_range);
  }
  if (terminal.is_json) {
    Json json = to_json(options, read);
    if (options.rank) json["listing"] = list_steps(read.program, *options.rank);
    terminal.out << json.dump(2) << "\n";
  } else if (options.rank) {
    terminal.out << list_steps(read.program, *options.rank);
  } else {
    print(options, read, terminal);
  }
  if (summarize(read.program, read.use).scratch_bytes < 0)
    terminal.err << "mccl show: " << options.file
                 << " names no largest size, so its scratch has no bound either: give it max_bytes "
                    "(maxBytes in MSCCL's dialect)\n";
  return ExitCode::Ok;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "Program file; - is standard input")->required();
  app.add_option("--rank", options->rank, "Lists the steps of this rank instead");
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kShowVerb = {.name = "show",
                        .summary = "what is in a program file",
                        .example =
                            "  mccl show all_pairs.xml\n"
                            "  mccl show all_pairs.xml --rank 0",
                        .declare = &declare};

}  // namespace mccl
