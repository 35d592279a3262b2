#include "engine/core/memory_trace.h"

#include <new>

namespace engine {
namespace {

thread_local MemoryTrace* listening = nullptr;

}  // namespace

MemoryTrace::MemoryTrace(Device device) : device_(device), before_(listening) { listening = this; }
MemoryTrace::~MemoryTrace() { listening = before_; }

void MemoryTrace::note(Device device, MemoryEvent event) {
  if (device == device_) events_.push_back(event);
}

namespace detail {

void trace_memory(Device device, MemoryCategory category, int64_t bytes) noexcept {
  if (listening == nullptr) return;
  try {
    listening->note(device, {category, bytes});
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace detail
}  // namespace engine
