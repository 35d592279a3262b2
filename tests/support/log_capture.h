#pragma once
// What the program logs while a test looks on.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/log.h"

namespace engine::testing {

/// Collects every message as long as it lives; one at a time.
class LogCapture {
 public:
  LogCapture() {
    set_log_capture([this](LogLevel level, std::string_view text) { lines_.emplace_back(level, text); });
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture() { set_log_capture({}); }

  const std::vector<std::pair<LogLevel, std::string>>& lines() const { return lines_; }
  /// How many messages of a level hold a text.
  int64_t count(LogLevel level, std::string_view text = "") const {
    return std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) {
      return line.first == level && line.second.find(text) != std::string::npos;
    });
  }

 private:
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

}  // namespace engine::testing
