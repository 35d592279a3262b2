#pragma once
// What is said and what can be done where memory runs out.

#include <cstdint>
#include <string>

#include "engine/core/allocator.h"

namespace engine {

/// While it lives, this thread's allocations are for a part of the work, such as "the backward pass", which the message
/// of an OutOfMemoryError names. Scopes nest; the innermost counts. The text must outlive the scope.
class MemoryPhase {
 public:
  explicit MemoryPhase(const char* words);
  ~MemoryPhase();
  MemoryPhase(const MemoryPhase&) = delete;
  MemoryPhase& operator=(const MemoryPhase&) = delete;

 private:
  const char* before_;
};

/// Bytes that tensors of this process could take on a device at once: what they take now and what is free. Other
/// processes may have changed it by the next call.
int64_t usable_memory(Device device);

/// Gives what the device's pool keeps for reuse back to the driver, from which recorded work takes its memory. Waits
/// for the device. Not while work is recorded. No effect on the CPU.
void release_unused_memory(Device device);

namespace detail {

/// An allocation that cannot be.
struct Shortage {
  Device device;
  int64_t requested = 0;
  MemoryCategory category{};
  int64_t free = 0;  // of the device, for anybody
  int64_t total = 0;
  int64_t kept = 0;           // by our allocator, unused
  int64_t largest_block = 0;  // of what is free or kept; 0: not known
  std::string in_use;
};

/// Throws OutOfMemoryError: what was asked for in which phase, what there is, whether it is there in pieces only, and
/// what to do.
[[noreturn]] void refuse(const Shortage& shortage);

int64_t usable_device_memory(Device device);
void release_unused_device_memory(Device device);

}  // namespace detail
}  // namespace engine
