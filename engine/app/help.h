#pragma once
// The texts of --help and --version.

#include <string>

#include "engine/app/flags.h"

namespace engine {

/// Usage and the command's flags by task, with defaults.
std::string help_text(Command command);

/// One line: version, build, libraries.
std::string version_text();

}  // namespace engine
