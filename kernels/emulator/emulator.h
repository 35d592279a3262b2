#pragma once
// The emulated device: CUDA's runtime and kernels on the CPU, with the same sources and the same names.
//
// Exact:
// - What a kernel computes, down to barriers, shuffles and votes over the lanes of a mask. Threads that can never meet
//   end the launch with cudaErrorLaunchFailure; a __syncthreads that some threads miss because they have ended counts
//   as that. Lanes that a block's last warp lacks are not waited for; a shuffle from a lane outside of the mask, whose
//   value CUDA leaves undefined, gives poison.
// - Order. Streams are queues, and nothing runs before the program makes it: by synchronising, by a copy that blocks,
//   by polling, or by filling a queue (Settings::queue_limit). Then only that runs which is needed, so that a missing
//   event or a buffer reused too early gives wrong numbers every time. Other schedule seeds than 0 draw legal
//   interleavings of the streams, and orders of blocks, warps and lanes. The legacy stream (nullptr) and blocking
//   streams wait for each other.
// - Memory's life in stream order, limits, graph capture, and which calls capture forbids.
//
// Not exact:
// - One thread runs at a time. Atomics and fences do nothing more, and spinning on another thread never ends.
// - Faults are told once, by the next call that waits for the device, and are forgotten then: CUDA's last until the
//   process ends. Until they are told, further kernels and copies are skipped.
// - Copies from pageable memory are staged when called (CUDA's may be); cudaMemcpy is over when it returns unless both
//   sides are device memory; cudaFree waits for the whole device, cudaFreeHost for nothing.
// - Memory is counted by program order, not by what has run: cudaFreeAsync makes room at once, but its block is
//   poisoned when the stream gets there, and used again only after a quarantine. A graph's memory counts from its
//   capture on, with the greatest sum of bytes live at once, and its blocks never overlap.
// - A graph's nodes come to their streams when it is launched; parallel branches stay parallel.
// - A host function runs on the thread that waits. Time is the host's: an event's is when it ran here.
// - Any device may read any other's memory.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/emulator/observer.h"

namespace emulator {

struct Settings {
  int devices = 2;
  size_t memory_bytes = size_t{8} << 30;  // of each device
  uint64_t schedule_seed = 0;
  int polls = 3;                                   // queries told cudaErrorNotReady before one operation runs
  size_t queue_limit = 4096;                       // a stream with more operations runs its oldest
  size_t deferred_free_bytes = size_t{512} << 20;  // more than this freed, but not yet run: the oldest frees run
  size_t quarantine_bytes = size_t{256} << 20;     // freed memory that is kept from use, per device
};

/// Before first use or between runs. Throws std::logic_error while work is queued, std::invalid_argument for less than
/// one device or fewer than have memory or streams. Forgets faults. Other limits hold from now on.
void configure(const Settings& settings);
Settings settings();

/// Runs everything on all devices. The first fault, which is forgotten then.
cudaError_t synchronize_all();

/// Device and pinned memory that the program has not freed, graphs' memory excepted, by id.
std::vector<Allocation> live_allocations();
/// The allocation that contains an address and has not been released in stream order; also a graph's.
std::optional<Allocation> find_allocation(const void* address);
/// Whether an address lies where device (or pinned) memory comes from, allocated or not.
bool emulated_memory(const void* address);

struct Counters {
  uint64_t kernels = 0, libraries = 0, copies = 0, sets = 0, host_functions = 0;  // run
  uint64_t copied_bytes = 0;
  uint64_t allocations = 0, graph_launches = 0;  // asked for
  uint64_t host_waits = 0;                       // calls that waited for the device, also where nothing was left
  uint64_t threads = 0, fiber_switches = 0;
};
/// Since the process began.
Counters counters();

}  // namespace emulator
