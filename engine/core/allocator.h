#pragma once
// Memory of tensors, counted by what it is for.
//
// A training step asks for the same sizes in the same order again and again, so freed blocks are kept: best fit with
// coalescing inside one reserved range of addresses, which is touched, and so backed by pages, only as far as the peak
// needs. In sanitizer builds each block is an allocation of its own, so that an access outside of it is found.

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "engine/core/device.h"

namespace engine {

enum class MemoryCategory : uint8_t { parameters, gradients, optimizer, activations, workspace, data };
inline constexpr size_t kMemoryCategories = 6;

/// "parameters", "gradients", ...
const char* name_of(MemoryCategory category);

/// Bytes by category (the index is the category's value), and of all together. A peak is the largest value since the
/// start or the last reset; the peak of all is less than the sum of the peaks where these fall at different times.
struct MemoryStats {
  std::array<int64_t, kMemoryCategories> live{};
  std::array<int64_t, kMemoryCategories> peak{};
  int64_t live_total = 0;
  int64_t peak_total = 0;
};

/// Of one device.
MemoryStats memory_stats(Device device = Device::cpu());
void reset_memory_peaks(Device device = Device::cpu());

/// Counts memory that somebody else holds for us (a library's scratch), e.g. as workspace. Negative when given back.
void count_external_memory(MemoryCategory category, int64_t bytes);

/// Bytes that may be live at once: what the machine, the control group and RLIMIT_AS had free when the process started.
int64_t memory_limit();

namespace detail {

/// Bytes by category. Threads may call at once.
class MemoryAccount {
 public:
  void count(MemoryCategory category, int64_t bytes);
  void reset_peaks();
  MemoryStats stats() const;
  /// "parameters 97.5 MiB, gradients 97.5 MiB", "nothing"
  std::string in_use() const;

 private:
  mutable std::mutex mutex_;
  MemoryStats stats_;
};

/// At least 64-byte aligned; null for 0 bytes. Throws OutOfMemoryError with what was asked for and what is in use.
void* allocate_host(int64_t bytes, MemoryCategory category);
void free_host(void* pointer, int64_t bytes, MemoryCategory category) noexcept;

/// Memory of an accelerator, at least 256-byte aligned, in the order of its compute_stream(): work enqueued there
/// before the allocation, or after the release, does not see it. Null for 0 bytes. Throws OutOfMemoryError.
void* allocate_device(int64_t bytes, MemoryCategory category, Device device);
void free_device(void* pointer, int64_t bytes, MemoryCategory category, Device device) noexcept;
MemoryStats device_memory_stats(Device device);
void reset_device_memory_peaks(Device device);

}  // namespace detail

}  // namespace engine
