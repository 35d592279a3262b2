#pragma once
// The program's log: standard error, and a file once a run has its folder. Results (progress, JSON) go to standard
// output and not through here.

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace engine {

enum class LogLevel { debug, info, warning, error };

/// Messages below `level` are dropped from standard error; the file gets all but debug.
void set_log_level(LogLevel level);
/// Adds a file, appended to and flushed line by line. Throws OutputError where it cannot be opened.
void add_log_file(const std::string& path);
/// Sees each line that goes to standard error before it is written, so that a progress bar can clear its line first.
void set_log_observer(std::function<void()> before_line);
/// Sees each message at or above `level`; for tests which hold that no warning was given. Empty: none.
void set_log_capture(std::function<void(LogLevel, std::string_view)> capture);

namespace detail {
void write_log(LogLevel level, std::string_view message);
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  detail::write_log(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  detail::write_log(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  detail::write_log(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  detail::write_log(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace engine
