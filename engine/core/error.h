#pragma once
// Errors are exceptions that carry the exit code engine_train ends with and a hint on what to do. A message is one
// line, "WHAT: WHERE: got X, expected Y"; names from outside go through escaped() first.

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace engine {

/// Exit codes of engine_train.
enum class ExitCode : int {
  done = 0,
  internal = 1,
  config = 2,
  data = 3,
  checkpoint = 4,
  device = 5,
  out_of_memory = 6,
  training = 7,
  peer = 8,
  output = 9,
};

/// Base of all errors of the engine; thrown as it is for faults of the program itself.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = "", ExitCode code = ExitCode::internal)
      : std::runtime_error(message), hint_(std::move(hint)), code_(code) {}
  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
  ExitCode code_;
};

/// One class per exit code, so that a catch can name what it handles.
template <ExitCode kCode>
class CodedError : public Error {
 public:
  explicit CodedError(const std::string& message, std::string hint = "") : Error(message, std::move(hint), kCode) {}
};

using ConfigError = CodedError<ExitCode::config>;
using DataError = CodedError<ExitCode::data>;
using CheckpointError = CodedError<ExitCode::checkpoint>;
using DeviceError = CodedError<ExitCode::device>;
using OutOfMemoryError = CodedError<ExitCode::out_of_memory>;
using TrainingError = CodedError<ExitCode::training>;
using PeerError = CodedError<ExitCode::peer>;
using OutputError = CodedError<ExitCode::output>;

/// The text with control characters, backslashes and ill-formed UTF-8 bytes written as \n, \t or \xNN, so that any file
/// name fits into one line of a message.
std::string escaped(std::string_view text);

/// The text of errno `number`, e.g. "No such file or directory".
std::string system_message(int number);

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);
}

}  // namespace engine

/// Throws engine::Error with a formatted message where the condition does not hold. For misuse of the engine's own API;
/// faults of the user's input throw one of the classes above.
#define ENGINE_CHECK(condition, ...) \
  (static_cast<bool>(condition)      \
       ? void(0)                     \
       : ::engine::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))
