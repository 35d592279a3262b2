#pragma once
// The host's own accesses to device memory, in checked mode: the pages of device memory are closed, and opened while
// an operation or the emulator itself works on them. Who touches them meanwhile is noted, and goes on.

#include <array>
#include <cstddef>
#include <vector>

namespace emulator {

inline constexpr size_t kHostFrames = 12;

/// One access of host code. x86-64 tells whether it wrote; elsewhere it counts as a read.
struct HostTouch {
  const void* address = nullptr;
  bool write = false;
  std::array<const void*, kHostFrames> frames{};  // return addresses, the innermost first; null behind the last
};

/// Closes device memory. Not in sanitizer builds, which have handlers of their own: no effect there.
void start_host_guard();
/// Opens it again and forgets what was noted.
void stop_host_guard();
/// What was noted since the last call, at most 64 accesses, each place of the program once.
std::vector<HostTouch> take_host_touches();

}  // namespace emulator
