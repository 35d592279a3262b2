#pragma once
// Checked mode: every access of every kernel thread is looked at, and what CUDA leaves undefined, or would do wrong now
// and then, is found in one run, whatever the order in which the emulator runs things.
//
// Found exactly: races on shared and global memory between threads, blocks and operations on streams; reads of memory
// that nobody wrote; accesses outside of allocations and outside of their life in stream order; misaligned accesses;
// barriers that not all threads reach; host memory touched by kernels and device memory touched by the host; pinned
// memory changed under a pending copy; memory never freed. docs/kernel_debugging.md shows how to use it.
//
// Not seen: what the host reads or writes in its own memory, but for the source of a pending copy; what it does in
// device memory while an operation runs on another thread; code that is compiled without the hooks (access_hooks.h),
// such as sanitizer builds and library calls, which are taken by the spans that they declare. Order through fences and
// atomics (a block that waits for another's flag) is not understood: it counts as a race. Rules for races: FastTrack
// (Flanagan, Freund 2009), with barriers for locks.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/emulator/intrinsics.h"
#include "kernels/emulator/report.h"

namespace emulator {

enum class FindingKind {
  shared_race,
  global_race,
  stream_race,
  unwritten_shared,
  unwritten_global,
  out_of_bounds,
  before_allocation,
  after_free,
  misaligned,
  divergent_barrier,
  launch_shape,
  host_memory,
  device_memory,
  pinned_reuse,
  leak,
};

/// "race on shared memory" and so on.
const char* describe(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::shared_race;
  std::string kernel;  // or the library call, copy or set
  bool in_thread = false;
  uint3 block{}, thread{};
  std::string details;
  std::string place;  // FILE:LINE from the project's root; empty where it is unknown

  /// "KERNEL: WHAT: block B thread T: DETAILS at FILE:LINE"; block and thread of kernels only, as "(x, y, z)" if they
  /// have more than x.
  std::string text() const;
};

struct CheckerOptions {
  size_t most_findings = 100;  // kept; each kind is kept once per kernel and line
};

/// Starts checking, without findings and counts. Between runs. What device memory holds already counts as written.
/// Costs ten to thirty times the time, and two to ten times the device memory that is touched.
void enable_checker(const CheckerOptions& options = {});
void disable_checker();
bool checker_enabled();

/// So far. Empty where the checker is off.
std::vector<Finding> findings();
size_t finding_count();
/// Device and pinned memory that is allocated and not freed, since the checker is on.
std::vector<Finding> leaks();
/// Kernels that have run, by name.
std::vector<KernelReport> kernel_reports();

/// The checker is on in a scope.
class CheckedScope {
 public:
  explicit CheckedScope(const CheckerOptions& options = {}) { enable_checker(options); }
  ~CheckedScope() { disable_checker(); }
  CheckedScope(const CheckedScope&) = delete;
  CheckedScope& operator=(const CheckedScope&) = delete;
};

}  // namespace emulator
