// Writes only what is proven, and reads it back before it is written.
#include "convert/convert_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/check.h"
#include "check/file_report.h"
#include "ir/xml.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string file;
  std::string output;
  std::string to;  // --to; empty: the other dialect
};

Result<XmlDialect> choose_dialect(const Options& options, XmlDialect read) {
  if (options.to == "mccl") return XmlDialect::Mccl;
  if (options.to == "msccl") return XmlDialect::Msccl;
  if (options.to.empty()) return read == XmlDialect::Mccl ? XmlDialect::Msccl : XmlDialect::Mccl;
  return wrong_usage(fmt::format("--to \"{}\": allowed are mccl and msccl", options.to));
}

Status write_file(const std::string& name, const std::string& text, Terminal& terminal) {
  if (name == "-") {
    terminal.out << text;
    return Status::ok();
  }
  std::ofstream file(name, std::ios::binary | std::ios::trunc);
  file << text;
  if (file.flush()) return Status::ok();
  return wrong_usage(name + ": cannot be written");
}

// What a reader of the new file does not get.
std::string loss_text(const FileReport& report, XmlDialect dialect) {
  if (dialect == XmlDialect::Mccl) return "";
  const ProgramUse& use = report.read.use;
  const bool has_limit = use.end_bytes != ProgramUse::kEndless;
  for (const RankProgram& rank : report.read.program.ranks)
    if (!has_limit && rank.scratch_chunk_count > 0)
      return "without max_bytes microsoft's loader never runs a program with scratch";
  return "";
}

ExitCode run(const Options& options, Terminal& terminal) {
  const Result<std::string> text = read_whole_file(options.file, &std::cin);
  if (!text.is_ok()) return report(terminal, "convert", text.status());
  const FileReport file = make_file_report(text.value(), XmlTarget::Mccl);
  const Result<XmlDialect> dialect = choose_dialect(options, file.read.dialect);
  if (!dialect.is_ok()) return report(terminal, "convert", dialect.status());
  if (!file.is_proven()) {
    terminal.err << to_string(file, options.file) << "mccl convert: " << options.file
                 << " is not proven, so nothing was written\n";
    return ExitCode::No;
  }
  const Result<std::string> written = write_xml(file.read.program, dialect.value(), file.read.use);
  if (!written.is_ok())
    return report(
        terminal, "convert",
        Status(StatusCode::Unsupported, options.file + ": " + written.status().message()));
  const XmlReadResult again = read_xml(written.value());
  MCCL_CHECK(again.is_ok());
  MCCL_CHECK(again.program == file.read.program);
  const Status status = write_file(options.output, written.value(), terminal);
  if (!status.is_ok()) return report(terminal, "convert", status);
  const std::string loss = loss_text(file, dialect.value());
  if (!loss.empty()) terminal.err << "mccl convert: " << loss << "\n";
  const char* name = dialect.value() == XmlDialect::Mccl ? "mccl" : "msccl";
  if (terminal.is_json && options.output != "-")
    terminal.out << Json{{"verb", "convert"},
                         {"file", options.file},
                         {"output", options.output},
                         {"dialect", name},
                         {"bytes", written.value().size()}}
                        .dump(2)
                 << "\n";
  else
    terminal.err << fmt::format("mccl convert: {} bytes in {}'s dialect\n", written.value().size(),
                                name);
  return ExitCode::Ok;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "Program file; - is standard input")->required();
  app.add_option("-o,--output", options->output, "Where to; - is standard output")->required();
  app.add_option("--to", options->to, "mccl or msccl (default: the other one)");
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kConvertVerb = {.name = "convert",
                           .summary = "a proven program file in the other dialect",
                           .example =
                               "  mccl convert all_pairs.xml -o all_pairs_mccl.xml\n"
                               "  mccl convert ring.xml -o - --to msccl",
                           .declare = &declare};

}  // namespace mccl
