#pragma once
// From given flags to settings: defaults of the model and of the bundled data, what was given, and the checks of flags
// against each other. Nothing is loaded and nothing written.

#include <string>

#include "engine/app/flags.h"
#include "engine/app/settings.h"
#include "engine/train/config.h"

namespace engine {

/// Flags of one command from the command line, with those of its --config file below them. Throws ConfigError.
GivenFlags merge_config_file(const GivenFlags& line, Command command);

/// The entries of a configuration as given flags. Keys without a flag of `command` are refused by name, or passed over
/// where `lenient` (the configuration in a checkpoint, which may be a newer program's).
GivenFlags given_in_config(const std::string& text, const std::string& name, Command command, bool lenient = false);

/// Settings with defaults filled in; workers and threads are numbers then. Throws ConfigError that names the flag.
Settings resolve(const GivenFlags& given, Command command);

/// A checkpoint's configuration below what was given to evaluate or predict: its model, data, picture sizes and
/// normalisation. Where the line names data, the checkpoint's is left out.
GivenFlags with_checkpoint_config(const GivenFlags& line, const std::string& config, const std::string& name,
                                  Command command);

/// What is in force, in the order of --help.
ConfigValues values_in_force(const Settings& settings);

}  // namespace engine
