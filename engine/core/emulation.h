#pragma once
// The emulated device's own settings and checked mode (kernels/emulator/checker.h). Defined in builds that have the
// device (kernels::kBuiltWithCuda is false); calls stand behind `if constexpr`.

#include <cstdint>

namespace engine {

/// Before the device is first used: the seed of the order in which blocks, threads and streams run.
void set_emulated_schedule(uint64_t seed);

/// Before the device is first used: the memory of each emulated device.
void set_emulated_memory(int64_t bytes);

/// Kernels and the like that the emulated device has run since the process began.
uint64_t emulated_work();

/// From now on every access of every kernel is watched. No effect in sanitizer builds, which watch by themselves.
void start_kernel_check();
/// Forgets what was found and watches no more.
void stop_kernel_check();

/// Where kernels are watched and something was found: throws Error with the first finding. Streams ask whenever the
/// host waits.
void require_sound_kernels();

}  // namespace engine
