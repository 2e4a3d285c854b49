// Log lines: "mccl[rank 3]: warning: text". A Logger is a value handed to whoever logs; there is no
// global one, so two communicators of one process keep their levels and prefixes apart.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace mccl {

// What is written: the named level and everything more severe.
enum class LogLevel : uint8_t { Error, Warning, Info, Debug };

// "error", "warning", "info", "debug": also the values of MCCL_LOG.
std::string_view log_level_name(LogLevel level);

// The prefix of a rank of a communicator: "mccl[rank 3]".
std::string rank_prefix(int rank);

// Copies share one sink. Any thread may log at any time; a line of up to 4 KiB is
// written whole. Logging never fails and never throws. Where nobody reads standard error it blocks
// for 100 ms once; lines are lost then, and counted in the next one that is written.
class Logger {
 public:
  using Sink = std::function<void(std::string_view line)>;  // without the line's end

  // Writes to standard error.
  Logger(LogLevel level, const std::string& prefix);
  // Hands each line to `sink`, one at a time; for tests and for faces that have a log of their own.
  Logger(LogLevel level, const std::string& prefix, Sink sink);

  LogLevel level() const { return level_; }
  // Ask before an expensive message is put together.
  bool is_enabled(LogLevel level) const { return level <= level_; }

  void error(std::string_view message) const { write(LogLevel::Error, message); }
  void warning(std::string_view message) const { write(LogLevel::Warning, message); }
  void info(std::string_view message) const { write(LogLevel::Info, message); }
  void debug(std::string_view message) const { write(LogLevel::Debug, message); }

 private:
  void write(LogLevel level, std::string_view message) const;

  LogLevel level_;
  std::shared_ptr<spdlog::logger> logger_;  // shared: copies of a Logger write to the same sink
};

}  // namespace mccl
