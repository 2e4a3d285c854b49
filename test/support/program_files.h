// Program files for tests: a folder of the test's own, and programs to put into it.
#pragma once

#include <string>

#include "ir/xml.h"
#include "mccl/program.h"

namespace mccl {

// Removed with all that is in it at the end.
class ProgramFolder {
 public:
  ProgramFolder();
  ~ProgramFolder();
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of the file. Aborts when the dialect cannot say the program.
  std::string write(const std::string& file, const Program& program, const ProgramUse& use = {},
                    XmlDialect dialect = XmlDialect::Mccl) const;
  std::string write_text(const std::string& file, const std::string& text) const;

 private:
  std::string path_;
};

// The published one-step all-reduce in short: every rank sends its input to every other and adds
// what it gets to its own, in an order of its own. Out of place only. Ranks differ in bits from
// three ranks on.
Program make_one_step_all_reduce(int rank_count);

}  // namespace mccl
