#pragma once
// Runs one kernel. The threads of a block run one after another on one fiber; a thread that waits keeps its fiber, and
// the next ones get another. Not reentrant, one operating system thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "kernels/emulator/intrinsics.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/runtime_api.h"

namespace emulator {

inline constexpr int kMaxThreads = 1024;
inline constexpr size_t kMaxSharedBytes = 48 << 10;

struct KernelRun {
  dim3 grid, block;
  const std::function<void()>* body = nullptr;
  uint64_t seed = 0;  // of the order of blocks, warps and lanes; 0: as numbered
};

/// What may be launched: at most 1024 threads a block (64 in z) and 2^31 - 1, 65535, 65535 blocks; nothing empty.
bool valid_shape(dim3 grid, dim3 block);

/// Runs all blocks, up to the first fault, which is said on stderr. cudaErrorLaunchFailure: a divergent barrier or an
/// exception; cudaErrorInvalidConfiguration: more than kMaxSharedBytes of shared memory.
cudaError_t run_kernel(std::string_view name, const KernelRun& run);

/// Whether a kernel's thread is running: what it touches is the kernel's doing.
bool in_kernel();
/// Shared memory of the running block, as far as it is declared by now.
Span shared_memory();
/// Stack of the running thread.
Span thread_stack();
/// Threads run and switches between fibers so far.
uint64_t threads_run();
uint64_t fiber_switches();

}  // namespace emulator
