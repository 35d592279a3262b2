#pragma once
// Going on with an interrupted run.

#include <optional>

#include "engine/io/safetensors.h"
#include "engine/train/config.h"

namespace engine {

/// The checkpoint that config.output.resume asks for: none without it, or with "auto" where the folder has none. Throws
/// CheckpointError for a damaged file asked for by name.
std::optional<SafetensorsFile> find_checkpoint(const OutputConfig& output);

/// Compares the values that a run was started with to those in force now. What may change (how long, batch size,
/// device, workers, output) is logged; anything else throws ConfigError that names the flag, for it would not be the
/// same run.
void check_resumable(const ConfigValues& before, const ConfigValues& now);

}  // namespace engine
