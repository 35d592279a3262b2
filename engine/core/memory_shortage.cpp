#include "engine/core/memory_shortage.h"

#include "engine/core/error.h"

namespace engine {
namespace {

thread_local const char* phase = nullptr;

double mib(int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

const char* hint_for(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters:
    case MemoryCategory::gradients:
    case MemoryCategory::optimizer:
      return "the model itself does not fit, whatever the batch: use a smaller --model, or a device with more memory "
             "free";
    default:
      return "use a smaller --batch-size (with --accumulate-steps for the same global batch) or smaller pictures";
  }
}

}  // namespace

MemoryPhase::MemoryPhase(const char* words) : before_(phase) { phase = words; }
MemoryPhase::~MemoryPhase() { phase = before_; }

int64_t usable_memory(Device device) { return device.is_cpu() ? memory_limit() : detail::usable_device_memory(device); }

void release_unused_memory(Device device) {
  if (!device.is_cpu()) detail::release_unused_device_memory(device);
}

namespace detail {

void refuse(const Shortage& s) {
  std::string message =
      fmt::format("out of memory: {}: requested {:.1f} MiB for {}{}, expected at most {:.1f} MiB free of {:.1f} MiB",
                  name_of(s.device), mib(s.requested), name_of(s.category),
                  phase == nullptr ? "" : fmt::format(" in {}", phase), mib(s.free + s.kept), mib(s.total));
  if (s.kept > 0) message += fmt::format(", {:.1f} MiB of them kept by this process for reuse", mib(s.kept));
  if (s.requested <= s.free + s.kept) {
    message += s.largest_block > 0 ? fmt::format(", in pieces of at most {:.1f} MiB", mib(s.largest_block))
                                   : std::string(", but in smaller pieces");
  }
  throw OutOfMemoryError(message + "; in use by this process: " + s.in_use, hint_for(s.category));
}

}  // namespace detail
}  // namespace engine
