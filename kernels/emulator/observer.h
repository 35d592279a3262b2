#pragma once
// What the emulator tells whoever watches it. The checker (checker.h) is the one observer; without one, nothing is
// told, and kernels run unwatched.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/emulator/intrinsics.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/runtime_api.h"

namespace emulator {

/// A block of device memory (or pinned host memory), guard zones not counted.
struct Allocation {
  char* base = nullptr;
  size_t bytes = 0;
  int device = -1;  // -1: pinned host memory
  uint64_t id = 0;  // never used again
};

enum class OperationKind { kernel, library, copy, set, host_function, allocation, release };

/// Something that runs on a stream, at the moment it runs.
struct Operation {
  OperationKind kind;
  std::string_view name;     // kernel or library call
  uint64_t stream = 0;       // 0: the host itself (synchronous copies)
  dim3 grid, block;          // kernels
  std::vector<Span> reads;   // of library calls, copies
  std::vector<Span> writes;  // of library calls, copies, sets; of allocations and releases in stream order: the memory,
                             // which holds poison after either. A graph's memory is allocated() when captured and
                             // freed() with the graph; in between, only these operations tell of its life.
  int64_t bytes = 0;  // of kernels: moved through device memory, by the formula of the launcher's header; 0: none given
};

class Observer {
 public:
  virtual ~Observer() = default;

  // Order between streams, told when the program asks for it (not when it happens), in program order. Work on a stream
  // comes after all earlier work on it; enqueued() tells which operation the program put where.
  virtual void enqueued(uint64_t stream, uint64_t operation) = 0;
  /// Told behind enqueued(): what that operation is going to do.
  virtual void will_run(uint64_t operation, const Operation& what) { (void)operation, (void)what; }
  virtual void event_recorded(uint64_t event, uint64_t stream) = 0;
  virtual void stream_waits(uint64_t stream, uint64_t event) = 0;
  virtual void host_waits_for_stream(uint64_t stream) = 0;  // also by a successful query
  virtual void host_waits_for_event(uint64_t event) = 0;
  virtual void host_waits_for_all() = 0;

  // Memory, at the moment the program calls.
  virtual void allocated(const Allocation& allocation, uint64_t stream) = 0;  // 0: at once
  virtual void freed(const Allocation& allocation, uint64_t stream) = 0;

  // Running. `operation` is the number that enqueued() was told.
  virtual void begin_operation(uint64_t operation, const Operation& what) = 0;
  virtual void end_operation() = 0;
  virtual void begin_block(uint3 block) = 0;
  virtual void end_block() = 0;
  /// By the running thread (threadIdx, blockIdx); pc is the instruction.
  virtual void access(const void* address, size_t bytes, bool write, bool atomic, const void* pc) = 0;
  /// All threads of the block that have not ended have met.
  virtual void block_barrier() = 0;
  /// The lanes of the mask have met in a warp of the running block.
  virtual void warp_barrier(int warp, unsigned mask) = 0;
  /// A barrier that not all of the block's (or mask's) threads reached while the others ended or wait elsewhere.
  virtual void divergent_barrier(std::string_view what) = 0;
  /// A kernel of a shape that no device runs; it will not run.
  virtual void launch_refused(const Operation& what) { (void)what; }
};

/// Replaces the observer; null: none. Not while work is running.
void set_observer(Observer* observer);
Observer* observer();

}  // namespace emulator
