#include "base/log.h"

#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <mutex>
#include <utility>

namespace mccl {
namespace {

// The logger's name is our prefix. No time: what reads the log has one, and tests compare lines.
constexpr const char* kPattern = "%n: %l: %v";

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

// An engine writes notices while its peers wait for it: whoever reads standard error must not be
// able to stop a job by not reading. A line waits a moment; then it is lost, and the next one that
// gets through says how many were.
class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
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
  static constexpr int kPatienceMs = 100;

  // False when it was not written, or not whole.
  bool write(std::string_view text) const {
    const int patience_ms = lost_count_ == 0 ? kPatienceMs : 0;
    while (!text.empty()) {
      pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
      const int ready = poll(&standard_error, 1, patience_ms);
      if (ready < 0 && errno == EINTR) continue;
      // A write to a pipe without a reader would end the process.
      if (ready != 1 || (standard_error.revents & POLLOUT) == 0 ||
          (standard_error.revents & POLLERR) != 0)
        return false;
      // As much fits into a pipe that is ready.
      const size_t piece = std::min<size_t>(text.size(), PIPE_BUF);
      const ssize_t written = ::write(STDERR_FILENO, text.data(), piece);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      text.remove_prefix(static_cast<size_t>(written));
    }
    return true;
  }

  size_t lost_count_ = 0;
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
