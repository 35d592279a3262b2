#pragma once
// The running block: threads, fibers, barriers, shared memory. Inside of the emulator only.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/emulator/execution.h"
#include "kernels/emulator/fiber.h"

namespace emulator {

/// Deterministic numbers for orders (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
inline uint64_t mix(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// Thrown through the body of a thread whose launch has failed.
struct Abandoned {};

class BlockRun {
 public:
  enum class Meeting { barrier, exchange, vote };

  BlockRun();
  cudaError_t run(std::string_view name, const KernelRun& run);

  void block_barrier();
  /// Lanes of the mask meet; gives the bits that `from` handed in (exchange), or the lanes whose bits are not 0 (vote).
  uint64_t meet(Meeting meeting, unsigned mask, uint64_t bits, int from);
  char* shared_bytes(const void* place, size_t size, size_t alignment);
  int thread() const { return thread_; }

  bool in_thread() const { return in_thread_; }
  Span shared_memory() const { return {shared_.data(), shared_used_}; }
  Span thread_stack() { return {fibers_.running().stack, fibers_.running().stack_bytes}; }
  uint64_t threads_run() const { return threads_run_; }
  uint64_t switches() const { return switches_; }

 private:
  struct Thread {
    Fiber* fiber = nullptr;  // while it waits
    uint64_t bits = 0, result = 0;
    int from = 0;
  };
  struct Group {
    Meeting meeting;
    unsigned mask, arrived;
  };
  struct Slot {
    const void* place;
    char* bytes;
    size_t size;
  };

  static void work();
  void run_threads();
  void run_thread(int thread);
  bool next_thread(int& thread);
  void run_block(uint3 block);
  void finish_block();
  Fiber& next();
  void wait();
  void release(int thread);
  void release_block();
  void finish_group(int warp, const Group& group);
  void diverged();
  void fail(cudaError_t error, std::string_view what);
  unsigned lanes_of(int warp) const;

  std::string_view name_;
  KernelRun run_;
  uint64_t random_ = 0;
  cudaError_t error_ = cudaSuccess;
  FiberPool fibers_;

  int count_ = 0;    // threads of a block
  int started_ = 0;  // places in the order of starting that have been passed, absent lanes included
  int ended_ = 0;
  int thread_ = 0;
  int at_barrier_ = 0;
  unsigned lane_order_ = 0;
  bool in_thread_ = false;
  std::array<Thread, kMaxThreads> threads_;
  std::array<std::vector<Group>, kMaxThreads / 32> groups_;
  std::array<int, kMaxThreads / 32> warp_order_{};
  std::array<Fiber*, 2 * kMaxThreads> ready_{};  // a ring
  unsigned ready_head_ = 0, ready_tail_ = 0;

  alignas(128) std::array<char, kMaxSharedBytes> shared_;
  size_t shared_used_ = 0;
  std::vector<Slot> slots_;
  uint64_t threads_run_ = 0, switches_ = 0;
};

/// The fiber to go on with: one that can, else a fresh one for threads that have not begun, else main.
inline Fiber& BlockRun::next() {
  if (ready_head_ != ready_tail_) return *ready_[ready_head_++ % ready_.size()];
  if (error_ == cudaSuccess && started_ < (count_ + 31) / 32 * 32) return fibers_.take();
  return fibers_.main();
}

inline void BlockRun::wait() {
  const int thread = thread_;
  const uint3 index = threadIdx;
  threads_[static_cast<size_t>(thread)].fiber = &fibers_.running();
  ++switches_;
  fibers_.switch_to(next());
  thread_ = thread;
  threadIdx = index;
  if (error_ != cudaSuccess) throw Abandoned();
}

inline BlockRun& block_run() {
  // Never destroyed: fibers stand in its frames until the process ends.
  static BlockRun& run = *new BlockRun();
  return run;
}

}  // namespace emulator
