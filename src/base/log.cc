#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
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
    : level_(level),
      logger_(make_logger(prefix, std::make_shared<spdlog::sinks::stderr_sink_mt>())) {}

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
