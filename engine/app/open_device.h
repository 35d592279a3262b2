#pragma once
// The device that --device names, made ready as the other flags say.

#include "engine/core/device.h"
#include "engine/train/config.h"

namespace engine {

/// Throws DeviceError where it does not work.
Device open_device(const TrainConfig& config);

}  // namespace engine
