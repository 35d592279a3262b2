#include "engine/core/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

#include "engine/core/error.h"

namespace engine {
namespace {

struct LogState {
  std::mutex mutex;
  std::shared_ptr<spdlog::logger> terminal;
  std::shared_ptr<spdlog::logger> file;
  std::function<void()> observer;
  std::function<void(LogLevel, std::string_view)> capture;
  LogLevel level = LogLevel::info;

  LogState() : terminal(std::make_shared<spdlog::logger>("engine", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
    terminal->set_pattern("%v");
    terminal->flush_on(spdlog::level::trace);
  }
};

LogState& state() {
  static LogState log;
  return log;
}

const char* prefix_of(LogLevel level) { return level == LogLevel::warning ? "warning: " : ""; }

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_log_level(LogLevel level) {
  const std::lock_guard lock(state().mutex);
  state().level = level;
}

void add_log_file(const std::string& path) {
  try {
    auto file = std::make_shared<spdlog::logger>("file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    file->flush_on(spdlog::level::info);
    file->set_error_handler([](const std::string&) {});  // a full disk must not stop or flood the run through its log
    const std::lock_guard lock(state().mutex);
    state().file = std::move(file);
  } catch (const spdlog::spdlog_ex& failure) {
    throw OutputError(fmt::format("log file: {}: {}", escaped(path), escaped(failure.what())));
  }
}

void set_log_observer(std::function<void()> before_line) {
  const std::lock_guard lock(state().mutex);
  state().observer = std::move(before_line);
}

void set_log_capture(std::function<void(LogLevel, std::string_view)> capture) {
  const std::lock_guard lock(state().mutex);
  state().capture = std::move(capture);
}

namespace detail {

void write_log(LogLevel level, std::string_view message) {
  LogState& log = state();
  const std::lock_guard lock(log.mutex);
  if (log.capture) log.capture(level, message);
  if (log.file && level != LogLevel::debug) log.file->log(spdlog_level(level), message);
  if (level < log.level) return;
  if (log.observer) log.observer();
  log.terminal->log(spdlog::level::critical, fmt::format("{}{}", prefix_of(level), message));
}

}  // namespace detail
}  // namespace engine
