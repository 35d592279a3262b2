#pragma once
// Memory of tensors, counted by what it is for.
//
// A training step asks for the same sizes in the same order again and again, so freed blocks are kept: best fit with
// coalescing inside one reserved range of addresses, which is touched, and so backed by pages, only as far as the peak
// needs. In sanitizer builds each block is an allocation of its own, so that an access outside of it is found.

#include <array>
#include <cstddef>
#include <cstdint>

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

MemoryStats memory_stats();
void reset_memory_peaks();

/// Counts memory that somebody else holds for us (a library's scratch), e.g. as workspace. Negative when given back.
void count_external_memory(MemoryCategory category, int64_t bytes);

/// Bytes that may be live at once: what the machine, the control group and RLIMIT_AS had free when the process started.
int64_t memory_limit();

namespace detail {
/// At least 64-byte aligned; null for 0 bytes. Throws OutOfMemoryError with what was asked for and what is in use.
void* allocate_host(int64_t bytes, MemoryCategory category);
void free_host(void* pointer, int64_t bytes, MemoryCategory category) noexcept;
}  // namespace detail

}  // namespace engine
