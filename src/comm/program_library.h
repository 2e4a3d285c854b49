// The programs that an endpoint has read from files: MSCCL_XML_FILES, MSCCL_CONFIG and
// MCCL_ALGO_DIR. They stand beside the built-ins in what the planner chooses from; nothing of them
// runs before it is proven, and all ranks must have the same ones, wherever they read them from.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalog.h"
#include "base/config.h"
#include "ir/proven_program.h"
#include "mccl/status.h"

namespace mccl {

class ProgramLibrary {
 public:
  // Reads every file that the settings name; blocks on them. What is wrong with any of them is kept
  // for fault(): the ranks of a communicator then hear of it together.
  explicit ProgramLibrary(const Config& config);
  ProgramLibrary(const ProgramLibrary&) = delete;
  ProgramLibrary& operator=(const ProgramLibrary&) = delete;

  // All faults of all files, one a line as "FILE:LINE:COLUMN: REASON"; ok when there are none.
  const Status& fault() const { return fault_; }
  // What a user should know: one line each.
  const std::vector<std::string>& notices() const { return notices_; }

  // The catalogue, then the loaded programs by name. Lives as long as the library.
  std::span<const Algorithm* const> algorithms() const { return algorithms_; }
  std::span<const Algorithm* const> loaded() const {
    return algorithms().subspan(catalog().size());
  }

  // SHA-256 over the canonical texts of all loaded programs and their windows, whatever the order
  // of the files; empty when there are none.
  const std::string& digest() const { return digest_; }
  // As messages call them, in the order of names; each once.
  const std::vector<std::string>& files() const { return files_; }

  // Has the programs for `rank_count` ranks judged, each once; the others are not looked at.
  // NotProven with all findings, as fault(). Under MCCL_ALGO_UNPROVEN=allow a program that merely
  // computes something else passes, and its findings become lines of `warnings`. Any thread;
  // blocks while it judges.
  Status prove(int rank_count, std::vector<std::string>* warnings);

  // Of a loaded algorithm whose rank count prove() has passed. Any thread.
  std::shared_ptr<const ProvenProgram> find_proven(const Algorithm& algorithm) const;
  int proven_count() const;

 private:
  struct Source {
    LoadedProgram loaded;
    Algorithm algorithm;
    XmlReadResult read;  // offsets, until the program is judged; like the text
    std::string text;
    std::string identity;  // of the file, whatever name it was called by
    std::shared_ptr<const ProvenProgram> proven;
    std::string findings;  // why it is not
  };

  void read_folder(const std::string& folder);
  void read_list(const std::string& path);
  void read_files(const std::string& paths);
  // With the windows and protocol of a list, or the file's own.
  struct Override;
  void read_program(const std::string& path, const Override* window);
  void add_fault(const std::string& text);
  void name_programs();
  void make_digest();
  void judge(Source& source, std::vector<std::string>* warnings);

  bool allows_unproven_;
  Status fault_;
  std::vector<std::string> notices_;
  std::vector<std::unique_ptr<Source>> sources_;  // by name, once they have names
  std::vector<const Algorithm*> algorithms_;
  std::string digest_;
  std::vector<std::string> files_;
  mutable std::mutex mutex_;  // of what prove() changes
};

}  // namespace mccl
