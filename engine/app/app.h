#pragma once
// engine_train: from words to an exit code.

#include <span>
#include <string>

namespace engine {

/// Runs the command that the words behind the program's name ask for. Returns the exit code; errors are one line on
/// standard error, "engine_train: error: MESSAGE; HINT".
int run_app(std::span<const std::string> words);

}  // namespace engine
