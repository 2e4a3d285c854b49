// Where a dump lies, and how it comes there whole: written under another name, then renamed.
#pragma once

#include <string>

#include "base/config.h"
#include "mccl/status.h"

namespace mccl {

struct DumpFile {
  std::string directory;
  std::string name;
  // The directory is made for this user alone, and its oldest files go when there are more than
  // 256; one that others can reach, or that a link leads to, is not used. Else it is the caller's
  // choice.
  bool is_private = false;

  std::string path() const { return directory + "/" + name; }
};

// As MCCL_DUMP_DIR says: "/tmp/mccl-1000/h7-4711.json". Not for kDumpsOff.
DumpFile choose_dump_file(const Config& config, const std::string& host, int64_t pid);
// At a path that somebody named.
DumpFile dump_file_at(const std::string& path);

// Makes the directory if it is missing, not its parents; replaces an older file. Only this user may
// read the file. Errors name the path and what to do. Blocks on the file system. `writer`: a number
// that no other thread or process that writes there uses.
Status write_dump_file(const DumpFile& file, const std::string& text, uint64_t writer);

}  // namespace mccl
