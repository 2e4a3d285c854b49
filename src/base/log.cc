#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <mutex>
#include <utility>

namespace mccl {
namespace {

// The logger's name is our prefix. No time: what reads the log has one, and tests compare lines.
constexpr const char* kPattern = "%n: %l: %v";

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(Logger::Sink function) : function_(std::move(function)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string_view line(text.data(), text.size());
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    function_(line);
  }
  void flush_() override {}

 private:
  Logger::Sink function_;
};

// Standard error as it is now, for one line, so that a write never blocks. The mode of a pipe or a
// terminal belongs to all who have it open, so it is opened once more; a regular file is never
// full.
class StandardError {
 public:
  StandardError() {
    struct stat status;
    if (fstat(STDERR_FILENO, &status) != 0) return;
    if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))
      own_ = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  ~StandardError() {
    if (own_ >= 0) close(own_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  // False when it takes nothing before `deadline`, or nobody is at the other end: a write would end
  // the process then. A signal does not make the time longer.
  bool await_room(Time deadline) const {
    pollfd file{own_ >= 0 ? own_ : STDERR_FILENO, POLLOUT, 0};
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      const int ready = poll(&file, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
      if (ready < 0 && errno == EINTR && left.count() > 0) continue;
      return ready == 1 && (file.revents & POLLOUT) != 0 && (file.revents & POLLERR) == 0;
    }
  }

  // Bytes written; -1 with errno otherwise.
  ssize_t write(std::string_view text) const {
    return ::write(own_ >= 0 ? own_ : STDERR_FILENO, text.data(), text.size());
  }

 private:
  int own_ = -1;  // without it (no /proc, another user's pipe) a write may block after all
};

// An engine writes notices while its peers wait for it: whoever reads standard error must not be
// able to stop a job by not reading. A line waits a moment; then it is lost, and the next one that
// gets through says how many were.
class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    if (is_mid_line_) text.push_back('\n');
    if (lost_count_ > 0) {
      const std::string name(message.logger_name.data(), message.logger_name.size());
      const std::string notice = name + ": warning: " + std::to_string(lost_count_) +
                                 (lost_count_ == 1 ? " line was lost" : " lines were lost") +
                                 " before this one: nobody read standard error\n";
      text.append(notice.data(), notice.data() + notice.size());
    }
    formatter_->format(message, text);
    if (write({text.data(), text.size()}))
      lost_count_ = 0;
    else
      ++lost_count_;
  }
  void flush_() override {}

 private:
  static constexpr std::chrono::milliseconds kPatience{100};

  // False when it was not written, or not whole.
  bool write(std::string_view text) {
    const Time deadline = Clock::now() + (lost_count_ == 0 ? kPatience : kPatience * 0);
    const StandardError standard_error;
    while (!text.empty()) {
      if (!standard_error.await_room(deadline)) return false;
      // So much goes into a pipe in one piece.
      const ssize_t written = standard_error.write(text.substr(0, PIPE_BUF));
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) {  // somebody else took the room
        if (Clock::now() >= deadline) return false;
        continue;
      }
      if (written <= 0) return false;
      is_mid_line_ = text[static_cast<size_t>(written) - 1] != '\n';
      text.remove_prefix(static_cast<size_t>(written));
    }
    return true;
  }

  size_t lost_count_ = 0;
  bool is_mid_line_ = false;
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::Error:
      return spdlog::level::err;
    case LogLevel::Warning:
      return spdlog::level::warn;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Debug:
      return spdlog::level::debug;
  }
  return spdlog::level::err;
}

// Made directly, not through spdlog's factories: those enter a registry, which is a global.
std::shared_ptr<spdlog::logger> make_logger(const std::string& prefix, spdlog::sink_ptr sink) {
  auto logger = std::make_shared<spdlog::logger>(prefix, std::move(sink));
  logger->set_pattern(kPattern);
  logger->set_level(spdlog::level::trace);  // the Logger's own level decides
  logger->flush_on(spdlog::level::trace);
  return logger;
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  constexpr std::array<std::string_view, 4> kNames = {"error", "warning", "info", "debug"};
  return kNames[static_cast<size_t>(level)];
}

std::string rank_prefix(int rank) {
  return "mccl[rank " + std::to_string(rank) + "]";
}

Logger::Logger(LogLevel level, const std::string& prefix)
    : level_(level), logger_(make_logger(prefix, std::make_shared<StandardErrorSink>())) {}

Logger::Logger(LogLevel level, const std::string& prefix, Sink sink)
    : level_(level),
      logger_(make_logger(prefix, std::make_shared<FunctionSink>(std::move(sink)))) {}

void Logger::write(LogLevel level, std::string_view message) const {
  if (!is_enabled(level)) return;
  try {
    logger_->log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
  } catch (...) {
    // spdlog passes on what is no std::exception. A lost line is better than a lost operation.
  }
}

}  // namespace mccl
