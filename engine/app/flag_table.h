#pragma once
// The rows of all_flags().

#include <limits>
#include <vector>

#include "engine/app/flags.h"

namespace engine {

inline constexpr double kNoLimit = std::numeric_limits<double>::max();

inline constexpr Limits kFromZero{0, kNoLimit};
inline constexpr Limits kFromOne{1, kNoLimit};

std::vector<Flag> make_flag_table();

/// Its parts about learning.
std::vector<Flag> optimizer_flags();
std::vector<Flag> regularisation_flags();
std::vector<Flag> schedule_flags();

/// Its part about precision and memory.
std::vector<Flag> precision_flags();

/// Its part about the device that this build has beside the CPU.
std::vector<Flag> device_flags();
/// Its part about GPUs that are not there.
std::vector<Flag> plan_flags();

}  // namespace engine
