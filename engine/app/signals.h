#pragma once
// SIGINT and SIGTERM as a flag that the training loop looks at.

#include <atomic>

namespace engine {

/// From here on the first of the two signals sets stop_signal(); a second one ends the process at once with 128 + its
/// number. A closed pipe on standard output is no reason to end.
void install_signal_handlers();

/// 0, or the signal that came first.
const std::atomic<int>& stop_signal();

}  // namespace engine
