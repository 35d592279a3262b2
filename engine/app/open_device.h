#pragma once
// The device that --device names, made ready as the other flags say.

#include "engine/core/device.h"
#include "engine/train/config.h"

namespace engine {

/// Throws DeviceError where it does not work.
Device open_device(const TrainConfig& config);

/// At the end of a run: waits for the device's work and writes the kernel report, where one was asked for.
void finish_device(const TrainConfig& config, Device device);

}  // namespace engine
