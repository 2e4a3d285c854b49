#include "explain/explain_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "explain/explain_report.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRanksMax = 4096;

struct Options {
  LinkOptions link;
  std::string collective = "all_reduce";
  std::string bytes = "1M";
  std::string dtype = "float32";
  std::string op = "sum";
  int rank_count = 8;
  bool is_in_place = false;
  std::vector<std::string> files;
  std::string algo;
};

template <typename T>
Status set_named(const char* option, const std::string& name, const std::optional<T>& found,
                 T& to) {
  if (!found) return wrong_usage(fmt::format("{} \"{}\" is unknown", option, name));
  to = *found;
  return Status::ok();
}

Result<ExplainRequest> read(const Options& options) {
  const Result<LinkChoice> link = choose_link(options.link);
  if (!link.is_ok()) return link.status();
  std::vector<std::string> warnings;
  Result<Config> config = parse_config(read_environment(), &warnings);
  if (!config.is_ok()) return config.status();
  const Result<int64_t> bytes = parse_bytes(options.bytes);
  if (!bytes.is_ok()) return bytes.status();
  MCCL_RETURN_IF_ERROR(check_range("--ranks", options.rank_count, 2, kRanksMax));
  ExplainRequest request{.link = link.value(), .config = config.value()};
  request.bytes = bytes.value();
  request.rank_count = options.rank_count;
  request.is_in_place = options.is_in_place;
  MCCL_RETURN_IF_ERROR(set_named("--op", options.collective, find_collective(options.collective),
                                 request.collective));
  MCCL_RETURN_IF_ERROR(
      set_named("--dtype", options.dtype, find_dtype(options.dtype), request.dtype));
  MCCL_RETURN_IF_ERROR(
      set_named("--reduction", options.op, find_reduce_op(options.op), request.op));
  for (const std::string& file : options.files)
    request.config.program_files += (request.config.program_files.empty() ? "" : ":") + file;
  if (!options.algo.empty()) request.config.algorithms = options.algo;
  return request;
}

Json to_json(const ExplainReport& report) {
  const Explanation& explanation = report.explanation;
  Json json = {
      {"verb", "explain"},          {"collective", collective_name(explanation.collective)},
      {"bytes", explanation.bytes}, {"ranks", explanation.rank_count},
      {"kind", "modelled"},         {"rejection", explanation.rejection},
      {"notices", report.notices},  {"programs", Json::array()}};
  for (const CandidateExplanation& candidate : explanation.candidates) {
    Json program = {{"program", candidate.algorithm},
                    {"is_chosen", candidate.is_chosen},
                    {"verdict", candidate.verdict},
                    {"remedy", candidate.remedy}};
    if (candidate.has_cost) program["time_us"] = static_cast<double>(candidate.cost.total_ns) / 1e3;
    json["programs"].push_back(std::move(program));
  }
  return json;
}

ExitCode run(const Options& options, Terminal& terminal) {
  const Result<ExplainRequest> request = read(options);
  if (!request.is_ok()) return report(terminal, "explain", request.status());
  const Result<ExplainReport> made = make_explain_report(request.value());
  if (!made.is_ok()) return report(terminal, "explain", made.status());
  for (const std::string& notice : made.value().notices) terminal.err << notice << "\n";
  if (terminal.is_json)
    terminal.out << to_json(made.value()).dump(2) << "\n";
  else
    terminal.out << to_string(made.value().explanation);
  return made.value().explanation.rejection.empty() ? ExitCode::Ok : ExitCode::No;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--op", options->collective, "Collective (default all_reduce)");
  app.add_option("--bytes", options->bytes, "Bytes of a rank's larger buffer (default 1M)");
  app.add_option("--dtype", options->dtype, "Type of an element (default float32)");
  app.add_option("--reduction", options->op, "sum, avg, product, min or max (default sum)");
  app.add_option("--ranks", options->rank_count, "Number of ranks, one per host (default 8)");
  app.add_flag("--in-place", options->is_in_place, "Output and input are the same memory");
  app.add_option("--xml", options->files,
                 "Program files, beside those of MSCCL_XML_FILES, MSCCL_CONFIG and MCCL_ALGO_DIR");
  app.add_option("--algo", options->algo, "As MCCL_ALGO: programs that may be chosen");
  add_link_options(app, options->link);
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kExplainVerb = {
    .name = "explain",
    .summary = "which program would serve a call, and what is in the way of every other",
    .example =
        "  mccl explain --op all_reduce --bytes 12M --dtype float32 --ranks 8 --in-place\n"
        "  mccl explain --bytes 64K --ranks 2 --xml ring.xml",
    .declare = &declare};

}  // namespace mccl
