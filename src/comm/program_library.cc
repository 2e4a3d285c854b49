// Files to programs: read, named, digested; judged when a communicator of their size meets. Tests:
// program_library_test.cc.
#include "comm/program_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "comm/program_prover.h"
#include "ir/program_list.h"
#include "planner/algorithm_list.h"
#include "planner/call_plan.h"
#include "planner/measured_cost.h"
#include "planner/program_fit.h"
#include "verify/verify.h"

namespace mccl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kProgramCountMax = 1024;

// For messages and for the rendezvous, whose texts are UTF-8.
std::string printable(std::string text) {
  for (char& letter : text)
    if (letter < ' ' || letter > '~') letter = '?';
  return text;
}

Result<std::string> read_text(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return Status(StatusCode::InvalidArgument, printable(path) + ": is a folder, not a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(StatusCode::InvalidArgument, printable(path) + ": cannot be read");
  std::string text;
  constexpr size_t kPieceBytes = 1 << 16;
  while (file && text.size() <= kXmlBytesMax) {
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    file.read(text.data() + before, kPieceBytes);
    text.resize(before + static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return Status(StatusCode::InvalidArgument, printable(path) + ": cannot be read");
  return text;
}

// What MCCL_ALGO can say: lower case letters, digits and underscores.
std::string list_name(std::string_view name) {
  std::string plain;
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    const char lower = static_cast<char>(std::tolower(byte));
    plain += byte < 0x80 && std::isalnum(byte) != 0 ? lower : '_';
  }
  return plain;
}

std::string stem_of(const std::string& path) {
  return list_name(fs::path(path).stem().string());
}

// The same file under two names is one.
std::string identity_of(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path : canonical.string();
}

bool has_root_attribute(std::string_view text, const XmlReadResult& read, std::string_view name) {
  const std::string_view root = text.substr(std::min(read.root_offset, text.size()));
  return root.substr(0, root.find('>')).find(fmt::format(" {}=", name)) != std::string_view::npos;
}

std::string find_text(const std::string& file, std::string_view text, const XmlReadResult& read,
                      const Finding& finding) {
  const FindingPlace& place = finding.place;
  const XmlPosition at = find_position(text, read.offset_of(place.rank, place.lane, place.step));
  std::string words =
      fmt::format("{}:{}:{}: not proven, {}{}: {}", file, at.line, at.column,
                  rule_name(finding.rule), finding.in_place ? " (in place)" : "", finding.text);
  for (const std::string& line : finding.trace) words += "\n  " + line;
  return words;
}

}  // namespace

struct ProgramLibrary::Override {
  int64_t begin_bytes;
  int64_t end_bytes;
  std::optional<ProgramProtocol> protocol;
};

ProgramLibrary::ProgramLibrary(const Config& config) : allows_unproven_(config.allows_unproven) {
  read_files(config.program_files);
  if (!config.program_list_file.empty()) read_list(config.program_list_file);
  if (!config.program_folder.empty()) read_folder(config.program_folder);
  if (fault_.is_ok()) name_programs();
  algorithms_.assign(catalog().begin(), catalog().end());
  if (fault_.is_ok()) make_digest();
  if (!fault_.is_ok()) sources_.clear();
  for (const std::unique_ptr<Source>& source : sources_) {
    source->algorithm = loaded_algorithm(source->loaded);
    algorithms_.push_back(&source->algorithm);
  }
}

void ProgramLibrary::add_fault(const std::string& text) {
  fault_ =
      Status(StatusCode::InvalidArgument, fault_.is_ok() ? text : fault_.message() + "\n" + text);
}

void ProgramLibrary::read_files(const std::string& paths) {
  for (size_t begin = 0; begin < paths.size();) {
    const size_t end = std::min(paths.find(':', begin), paths.size());
    if (end > begin) read_program(paths.substr(begin, end - begin), nullptr);
    begin = end + 1;
  }
}

void ProgramLibrary::read_list(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text.is_ok()) return add_fault("MSCCL_CONFIG: " + text.status().message());
  const ProgramListResult list = read_program_list(text.value());
  for (const XmlFault& fault : list.faults)
    add_fault(fmt::format("{}:{}:{}: {}", printable(path), fault.line, fault.column, fault.text));
  if (!list.is_ok()) return;
  if (list.has_written_spelling)
    notices_.push_back(path +
                       ": minBytes and maxBytes are obeyed here; microsoft/msccl looks for "
                       "minbytes and maxbytes and takes no notice of them");
  for (const ProgramListEntry& entry : list.entries) {
    const Override window{entry.begin_bytes, entry.end_bytes, entry.protocol};
    read_program(entry.path, &window);
  }
}

void ProgramLibrary::read_folder(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == ".xml") paths.push_back(entry->path().string());
  if (error)
    return add_fault(
        fmt::format("MCCL_ALGO_DIR: {} cannot be read: {}", printable(folder), error.message()));
  if (paths.empty()) notices_.push_back("MCCL_ALGO_DIR: there is no *.xml in " + folder);
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) read_program(path, nullptr);
}

void ProgramLibrary::read_program(const std::string& path, const Override* window) {
  if (sources_.size() == kProgramCountMax)
    return add_fault(fmt::format("{}: more than {} programs", path, kProgramCountMax));
  Result<std::string> text = read_text(path);
  if (!text.is_ok()) return add_fault(text.status().message());
  auto source = std::make_unique<Source>();
  source->text = std::move(text).value();
  source->read = read_xml(source->text);
  if (!source->read.is_ok()) {
    std::string faults = source->read.to_string(printable(path));
    while (faults.ends_with('\n')) faults.pop_back();
    return add_fault(faults);
  }
  LoadedProgram& loaded = source->loaded;
  loaded.program = std::move(source->read.program);
  loaded.use = source->read.use;
  loaded.dialect = source->read.dialect;
  loaded.file = printable(path);
  // Whoever requires `outofplace` counts elements, as we do (find_fit()).
  if (has_root_attribute(source->text, source->read, "outofplace"))
    loaded.dialect = XmlDialect::Mccl;
  if (window != nullptr) {
    loaded.use.begin_bytes = window->begin_bytes;
    loaded.use.end_bytes = window->end_bytes;
    if (window->protocol) loaded.use.protocol = *window->protocol;
  }
  source->identity = identity_of(path);
  for (const std::unique_ptr<Source>& other : sources_)
    if (other->identity == source->identity && other->loaded.use == loaded.use)
      return;  // named twice
  sources_.push_back(std::move(source));
}

// Public files share names ("allreduce_pairs"); with the file's name behind it each is found. All
// ranks must come to the same names, so they do not depend on the order of the files.
void ProgramLibrary::name_programs() {
  const auto count = [&](const std::string& name) {
    return std::count_if(sources_.begin(), sources_.end(),
                         [&](const auto& source) { return source->loaded.program.name == name; });
  };
  for (const std::unique_ptr<Source>& source : sources_) {
    Program& program = source->loaded.program;
    program.name = list_name(program.name);
    if (program.name.find_first_not_of('_') == std::string::npos)
      program.name = stem_of(source->loaded.file);
  }
  std::set<std::string> shared;
  for (const std::unique_ptr<Source>& source : sources_)
    if (count(source->loaded.program.name) > 1) shared.insert(source->loaded.program.name);
  for (const std::unique_ptr<Source>& source : sources_) {
    Program& program = source->loaded.program;
    if (shared.contains(program.name)) program.name += "_" + stem_of(source->loaded.file);
  }
  const auto rank_of = [](const std::unique_ptr<Source>& source) {
    const LoadedProgram& loaded = source->loaded;
    return std::tuple(loaded.program.name, loaded.use.begin_bytes, loaded.use.end_bytes,
                      loaded.use.protocol);
  };
  std::sort(sources_.begin(), sources_.end(),
            [&](const auto& left, const auto& right) { return rank_of(left) < rank_of(right); });
  // One file with several windows of a list is several programs.
  for (size_t first = 0; first < sources_.size();) {
    const std::string name = sources_[first]->loaded.program.name;
    size_t next = first + 1;
    for (; next < sources_.size() && sources_[next]->loaded.program.name == name; ++next) {
      if (sources_[next]->identity != sources_[first]->identity)
        add_fault(fmt::format("{} and {} are both called \"{}\"; give one of them another name",
                              sources_[first]->loaded.file, sources_[next]->loaded.file, name));
      sources_[next]->loaded.program.name += fmt::format("_{}", next - first + 1);
    }
    first = next;
  }
  for (const std::unique_ptr<Source>& source : sources_) {
    LoadedProgram& loaded = source->loaded;
    if (loaded.program.name == "msccl" || find_algorithm(loaded.program.name) != nullptr)
      add_fault(fmt::format("{}: \"{}\" is the name of a built-in program; give it another name",
                            loaded.file, loaded.program.name));
    loaded.cost = measure_cost(loaded.program);
    loaded.is_direct = measure_shape(loaded.program).is_direct;
  }
}

void ProgramLibrary::make_digest() {
  if (sources_.empty()) return;
  std::string text;
  std::set<std::string> files;
  for (const std::unique_ptr<Source>& source : sources_) {
    const LoadedProgram& loaded = source->loaded;
    const ProgramUse& use = loaded.use;
    const Result<std::string> written = write_xml(loaded.program, XmlDialect::Mccl);
    if (!written.is_ok()) {
      add_fault(loaded.file + ": " + written.status().message());
      continue;
    }
    text += fmt::format("{} {} {} {} {} {} \"{}\" {}\n{}", loaded.program.name,
                        static_cast<int>(loaded.dialect), use.begin_bytes, use.end_bytes,
                        msccl_protocol_name(use.protocol), use.priority, use.topology, use.version,
                        written.value());
    if (files.insert(loaded.file).second) files_.push_back(loaded.file);
  }
  digest_ = sha256_hex(text);
}

void ProgramLibrary::judge(Source& source, std::vector<std::string>* warnings) {
  const std::string file = source.loaded.file;
  Verdict verdict = verify(source.loaded.program, RankTrees::MayDiffer);
  const bool is_allowed = verdict.computes_wrongly() && allows_unproven_;
  std::string findings;
  for (const Finding& finding : verdict.findings)
    findings += (findings.empty() ? "" : "\n") + find_text(file, source.text, source.read, finding);
  source.text = {};
  source.read = {};
  if (!verdict.is_proven() && !is_allowed) {
    source.findings = findings;
    if (verdict.computes_wrongly())
      source.findings += "\n" + file + ": MCCL_ALGO_UNPROVEN=allow runs it all the same";
    return;
  }
  if (is_allowed)
    warnings->push_back(file +
                        " computes something else than its collective and runs, because "
                        "MCCL_ALGO_UNPROVEN=allow:\n" +
                        findings);
  source.loaded.is_bitwise_equal = verdict.proof.is_bitwise_equal || is_allowed;
  source.proven = ProgramProver::accept(source.loaded.program, std::move(verdict));
  source.loaded.reduces_in_rank_order = reduces_in_rank_order(*source.proven);
  source.algorithm.reduces_in_rank_order = source.loaded.reduces_in_rank_order;
  if (!source.loaded.is_bitwise_equal)
    warnings->push_back(
        file +
        ": its ranks add in different orders and would differ in bits; it serves integers, "
        "min and max, and no sums and products of floats");
}

Status ProgramLibrary::prove(int rank_count, std::vector<std::string>* warnings) {
  MCCL_RETURN_IF_ERROR(fault_);
  const std::lock_guard lock(mutex_);
  std::string findings;
  for (const std::unique_ptr<Source>& source : sources_) {
    if (source->loaded.program.rank_count() != rank_count) continue;
    if (source->proven == nullptr && source->findings.empty()) judge(*source, warnings);
    if (!source->findings.empty()) findings += (findings.empty() ? "" : "\n") + source->findings;
  }
  return findings.empty() ? Status::ok() : Status(StatusCode::NotProven, findings);
}

std::shared_ptr<const ProvenProgram> ProgramLibrary::find_proven(const Algorithm& algorithm) const {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Source>& source : sources_)
    if (&source->algorithm == &algorithm) return source->proven;
  return nullptr;
}

int ProgramLibrary::proven_count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(
      sources_.begin(), sources_.end(),
      [](const std::unique_ptr<Source>& source) { return source->proven != nullptr; }));
}

}  // namespace mccl
