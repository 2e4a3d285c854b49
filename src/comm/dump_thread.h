// Writes a process's dumps: when a communicator has failed, and on SIGUSR1. The engine hands over
// what it copied and goes on; this thread makes the text and blocks on the file.
//
// SIGUSR1 is taken only where nobody has; a handler that the program sets later replaces ours.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "comm/dump.h"
#include "comm/dump_file.h"

namespace mccl {

// Of the thread of a process that answers SIGUSR1: `mccl dump PID` looks for it.
constexpr const char* kDumpThreadName = "mccl-dump";

class DumpThread {
 public:
  // `take` makes a dump for SIGUSR1, on the thread; it may block. Network: no descriptor is left.
  static Result<std::unique_ptr<DumpThread>> start(DumpFile file, const Logger& logger,
                                                   std::function<ProcessDump()> take);
  // Writes what was handed over.
  ~DumpThread();
  DumpThread(const DumpThread&) = delete;
  DumpThread& operator=(const DumpThread&) = delete;

  // `failures`: what has failed, in words, a line of the log each. A dump that has not been written
  // is replaced by the newer one. Any thread, does not block.
  void hand_over(ProcessDump dump, std::vector<std::string> failures);

 private:
  struct Pipe {
    int in;
    int out;
  };
  struct Work {
    ProcessDump dump;
    std::vector<std::string> failures;
  };

  DumpThread(DumpFile file, const Logger& logger, std::function<ProcessDump()> take, Pipe pipe);
  void run();
  void write_failures();
  void answer_signal();
  // Once a warning, then for those who debug.
  void complain(const std::string& text);
  void notify(char what) const;

  DumpFile file_;
  Logger logger_;
  std::function<ProcessDump()> take_;
  Pipe pipe_;
  bool has_complained_ = false;
  bool has_signal_ = false;
  std::mutex mutex_;
  std::optional<Work> pending_;
  std::thread thread_;
};

}  // namespace mccl
