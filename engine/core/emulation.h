#pragma once
// Settings of the emulated device. Defined in builds that have it (kernels::kBuiltWithCuda is false); calls stand
// behind `if constexpr`.

#include <cstdint>

namespace engine {

/// Before the device is first used: the seed of the order in which blocks, threads and streams run.
void set_emulated_schedule(uint64_t seed);

}  // namespace engine
