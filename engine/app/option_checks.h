#pragma once
// Flags that must fit each other.

#include "engine/app/flags.h"
#include "engine/app/settings.h"

namespace engine {

/// Throws ConfigError that names the flag where two do not go together; warns in the log where a flag given on the
/// command line has no effect.
void check_options(const Settings& settings, const GivenFlags& given, Command command);

}  // namespace engine
