#pragma once
// The words of a command line, sorted into flags and other arguments. CLI11 is used in command_line.cpp alone.

#include <span>
#include <string>
#include <vector>

#include "engine/app/flags.h"

namespace engine {

enum class Request { run, help, version };

struct CommandLine {
  Command command = kTrain;
  Request request = Request::run;
  GivenFlags flags;
  std::vector<std::string> arguments;  // predict's pictures
};

/// Reads the words behind the program's name: an optional command, then its flags, "--flag value" or "--flag=value",
/// the last of a repeated one counts. Values are not looked at yet. Throws ConfigError for unknown flags, flags without
/// a value and superfluous arguments.
CommandLine parse_command_line(std::span<const std::string> words);

}  // namespace engine
