#include "check/check_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "base/dtype.h"
#include "check/file_report.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> files;
  std::string target = "mccl";
  std::string same;  // the file to compare with; empty: none
};

// A file that was checked.
struct Checked {
  std::string name;
  FileReport report;
  std::optional<Comparison> comparison;

  bool is_ok() const {
    const bool is_same = !comparison || comparison->sameness == Sameness::Equal ||
                         comparison->sameness == Sameness::SameBits;
    return report.is_fit() && is_same;
  }
};

// Whether every reduction is the left fold of the ranks in their order.
bool is_in_rank_order(const FileReport& report) {
  const uint64_t tree = rank_order_tree(report.read.program.rank_count());
  return std::all_of(report.proof.output_trees.begin(), report.proof.output_trees.end(),
                     [&](uint64_t found) { return found == tree; });
}

std::string proof_text(const FileReport& report) {
  const Program& program = report.read.program;
  return fmt::format(
      "proven: {}; {} message{} outstanding per stream suffice{}; {}", describe_call(program),
      report.proof.credits_needed, report.proof.credits_needed == 1 ? "" : "s",
      report.proof.credits_needed == 1 ? "s" : "",
      is_in_rank_order(report) ? "reduces in rank order" : "the same bits on every rank");
}

void print(const Checked& checked, Terminal& terminal) {
  terminal.out << to_string(checked.report, checked.name);
  const size_t fault_count = checked.report.read.faults.size() +
                             checked.report.target_faults.size() + checked.report.findings.size();
  if (checked.report.is_fit())
    terminal.out << checked.name << ": " << proof_text(checked.report) << "\n";
  else
    terminal.out << fmt::format(
        "{}: {}: {} fault{}\n", checked.name,
        checked.report.is_proven() ? "proven, but the target refuses it" : "not proven",
        fault_count, fault_count == 1 ? "" : "s");
  if (checked.comparison) terminal.out << checked.name << ": " << checked.comparison->text << "\n";
}

Json to_json(const std::vector<XmlFault>& faults) {
  Json json = Json::array();
  for (const XmlFault& fault : faults)
    json.push_back({{"line", fault.line}, {"column", fault.column}, {"text", fault.text}});
  return json;
}

Json to_json(const std::vector<PlacedFinding>& findings) {
  Json json = Json::array();
  for (const PlacedFinding& finding : findings) {
    Json trace = Json::array();
    for (const PlacedLine& line : finding.trace)
      trace.push_back(
          {{"line", line.position.line}, {"column", line.position.column}, {"text", line.text}});
    json.push_back({{"rule", rule_name(finding.rule)},
                    {"in_place", finding.in_place},
                    {"line", finding.position.line},
                    {"column", finding.position.column},
                    {"text", finding.text},
                    {"trace", std::move(trace)}});
  }
  return json;
}

Json to_json(const Checked& checked) {
  const FileReport& report = checked.report;
  Json json = {{"file", checked.name},
               {"proven", report.is_proven()},
               {"faults", to_json(report.read.faults)},
               {"target_faults", to_json(report.target_faults)},
               {"findings", to_json(report.findings)}};
  if (report.read.is_ok()) {
    const Program& program = report.read.program;
    json["name"] = program.name;
    json["collective"] = collective_name(program.collective);
    json["ranks"] = program.rank_count();
    json["chunks"] = program.chunk_count;
    json["claims_in_place"] = program.in_place;
    json["claims_out_of_place"] = program.out_of_place;
  }
  if (report.is_proven()) {
    json["credits_needed"] = report.proof.credits_needed;
    json["in_rank_order"] = is_in_rank_order(report);
  }
  if (checked.comparison) {
    const Sameness sameness = checked.comparison->sameness;
    json["same_program"] = sameness == Sameness::Equal;
    json["same_bits"] = sameness == Sameness::Equal || sameness == Sameness::SameBits;
    json["comparison"] = checked.comparison->text;
  }
  return json;
}

// A file that cannot be read is usage, but the others are checked all the same.
ExitCode run(const Options& options, Terminal& terminal) {
  const std::optional<XmlTarget> target = find_target(options.target);
  if (!target)
    return report(terminal, "check",
                  wrong_usage(fmt::format(
                      "--target \"{}\": allowed are mccl, msccl, executor, rccl", options.target)));
  std::optional<FileReport> same;
  if (!options.same.empty()) {
    const Result<std::string> text = read_whole_file(options.same, &std::cin);
    if (!text.is_ok()) return report(terminal, "check", text.status());
    same = make_file_report(text.value(), *target);
  }
  ExitCode code = ExitCode::Ok;
  Json files = Json::array();
  for (const std::string& name : options.files) {
    const Result<std::string> text = read_whole_file(name, &std::cin);
    if (!text.is_ok()) {
      code = report(terminal, "check", text.status());
      continue;
    }
    Checked checked{name, make_file_report(text.value(), *target), std::nullopt};
    if (same) checked.comparison = compare(checked.report, *same);
    if (!checked.is_ok() && code == ExitCode::Ok) code = ExitCode::No;
    if (terminal.is_json)
      files.push_back(to_json(checked));
    else
      print(checked, terminal);
  }
  if (terminal.is_json)
    terminal.out
        << Json{{"verb", "check"}, {"target", options.target}, {"files", std::move(files)}}.dump(2)
        << "\n";
  return code;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "Program files; - is standard input")->required();
  app.add_option("--target", options->target,
                 "Whose limits hold too: mccl (default), msccl, executor or rccl");
  app.add_option("--same", options->same, "Whether each computes the same bits as this file");
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kCheckVerb = {
    .name = "check",
    .summary = "whether program files are right, with line and column of every fault",
    .example =
        "  mccl check ring.xml all_pairs.xml\n"
        "  mccl check all_pairs.xml --target msccl\n"
        "  mccl check fast.xml --same plain.xml",
    .declare = &declare};

}  // namespace mccl
