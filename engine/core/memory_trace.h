#pragma once
// Which memory a piece of work takes and gives back, in order.

#include <cstdint>
#include <vector>

#include "engine/core/allocator.h"

namespace engine {

/// An allocation, or a release, which is negative.
struct MemoryEvent {
  MemoryCategory category;
  int64_t bytes;
  bool operator==(const MemoryEvent&) const = default;
};

/// What this thread allocates and releases on a device while it lives. Traces nest; the innermost listens.
class MemoryTrace {
 public:
  explicit MemoryTrace(Device device);
  ~MemoryTrace();
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;
  const std::vector<MemoryEvent>& events() const { return events_; }
  void note(Device device, MemoryEvent event);

 private:
  Device device_;
  MemoryTrace* before_;
  std::vector<MemoryEvent> events_;
};

namespace detail {

/// Called by the allocators. Loses the event where there is no memory to note it down in.
void trace_memory(Device device, MemoryCategory category, int64_t bytes) noexcept;

}  // namespace detail
}  // namespace engine
