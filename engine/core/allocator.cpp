#include "engine/core/allocator.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <string>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/core/memory_shortage.h"
#include "engine/core/memory_trace.h"

namespace engine {
namespace {

constexpr int64_t kAlignment = 128;

int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// A number of bytes from a file of one value; the largest number where there is none ("max").
int64_t value_in(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : std::numeric_limits<int64_t>::max();
}

int64_t memory_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    int64_t kib = 0;
    file >> kib;
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

int64_t find_memory_limit() {
  int64_t limit = memory_available();
  limit = std::min(limit, value_in("/sys/fs/cgroup/memory.max"));
  limit = std::min(limit, value_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    limit = std::min(limit, static_cast<int64_t>(address_space.rlim_cur / 4 * 3));
  }
  return limit / kAlignment * kAlignment;
}

class HostAllocator {
 public:
  void* allocate(int64_t bytes, MemoryCategory category) {
    const std::lock_guard lock(mutex_);
    // Compared first: a size near the largest int64 cannot be rounded up.
    void* pointer = bytes > memory_limit() ? nullptr : take(rounded(bytes));
    if (pointer == nullptr) refuse_now(bytes, category);
    account_.count(category, rounded(bytes));
    detail::trace_memory(Device::cpu(), category, rounded(bytes));
    return pointer;
  }

  void free(void* pointer, int64_t bytes, MemoryCategory category) noexcept {
    const std::lock_guard lock(mutex_);
    give_back(pointer, rounded(bytes));
    account_.count(category, -rounded(bytes));
    detail::trace_memory(Device::cpu(), category, -rounded(bytes));
  }

  detail::MemoryAccount& account() { return account_; }

 private:
#ifdef ENGINE_SANITIZED
  void* take(int64_t bytes) {
    if (bytes > memory_limit() - account_.stats().live_total) return nullptr;
    return std::aligned_alloc(kAlignment, static_cast<size_t>(bytes));
  }
  void give_back(void* pointer, int64_t) { std::free(pointer); }
  int64_t largest_block() const { return 0; }
#else
  void* take(int64_t bytes) {
    if (base_ == nullptr) {
      void* range = mmap(nullptr, static_cast<size_t>(memory_limit()), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) return nullptr;
      base_ = static_cast<char*>(range);
    }
    const auto offset = arena_.allocate(bytes);
    return offset ? base_ + *offset : nullptr;
  }
  void give_back(void* pointer, int64_t bytes) { arena_.free(static_cast<char*>(pointer) - base_, bytes); }
  int64_t largest_block() const { return arena_.largest_free(); }

  char* base_ = nullptr;
  Arena arena_{memory_limit()};
#endif

  [[noreturn]] void refuse_now(int64_t bytes, MemoryCategory category) const {
    detail::refuse({.device = Device::cpu(),
                    .requested = bytes,
                    .category = category,
                    .free = std::max<int64_t>(memory_limit() - account_.stats().live_total, 0),
                    .total = memory_limit(),
                    .largest_block = largest_block(),
                    .in_use = account_.in_use()});
  }

  std::mutex mutex_;
  detail::MemoryAccount account_;
};

HostAllocator& host_allocator() {
  // Never destroyed: tensors in static objects may outlive any order of destruction.
  static auto* allocator = new HostAllocator;
  return *allocator;
}

}  // namespace

const char* name_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters:
      return "parameters";
    case MemoryCategory::gradients:
      return "gradients";
    case MemoryCategory::optimizer:
      return "optimizer";
    case MemoryCategory::activations:
      return "activations";
    case MemoryCategory::workspace:
      return "workspace";
    case MemoryCategory::data:
      return "data";
  }
  throw Error("[memory] no such category");
}

MemoryStats memory_stats(Device device) {
  return device.is_cpu() ? host_allocator().account().stats() : detail::device_memory_stats(device);
}
void reset_memory_peaks(Device device) {
  device.is_cpu() ? host_allocator().account().reset_peaks() : detail::reset_device_memory_peaks(device);
}

void count_external_memory(MemoryCategory category, int64_t bytes) {
  host_allocator().account().count(category, bytes);
}

int64_t memory_limit() {
  static const int64_t limit = find_memory_limit();
  return limit;
}

namespace detail {

void MemoryAccount::count(MemoryCategory category, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto i = static_cast<size_t>(category);
  stats_.live[i] += bytes;
  stats_.peak[i] = std::max(stats_.peak[i], stats_.live[i]);
  stats_.live_total += bytes;
  stats_.peak_total = std::max(stats_.peak_total, stats_.live_total);
}

void MemoryAccount::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.live;
  stats_.peak_total = stats_.live_total;
}

MemoryStats MemoryAccount::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string MemoryAccount::in_use() const {
  const MemoryStats now = stats();
  std::string used;
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    if (now.live[i] == 0) continue;
    used += fmt::format("{}{} {:.1f} MiB", used.empty() ? "" : ", ", name_of(static_cast<MemoryCategory>(i)),
                        static_cast<double>(now.live[i]) / 0x1p20);
  }
  return used.empty() ? "nothing" : used;
}

void* allocate_host(int64_t bytes, MemoryCategory category) {
  return bytes == 0 ? nullptr : host_allocator().allocate(bytes, category);
}

void free_host(void* pointer, int64_t bytes, MemoryCategory category) noexcept {
  if (pointer != nullptr) host_allocator().free(pointer, bytes, category);
}

}  // namespace detail
}  // namespace engine
