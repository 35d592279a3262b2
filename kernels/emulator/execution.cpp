#include "kernels/emulator/execution.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>

#include "kernels/emulator/block_run.h"
#include "kernels/emulator/observer.h"
#include "kernels/emulator/poison.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

/// Blocks in a seeded order without a table: i -> (start + i * step) mod count, step and count without common divisor.
class BlockOrder {
 public:
  BlockOrder(uint64_t count, uint64_t seed) : count_(count) {
    if (seed == 0 || count < 2) return;
    start_ = mix(seed) % count;
    step_ = 1 + mix(seed) % (count - 1);
    while (std::gcd(step_, count) != 1) ++step_;
  }
  uint64_t next() {
    const uint64_t result = at_;
    at_ = (at_ + step_) % count_;
    return (result + start_) % count_;
  }

 private:
  uint64_t count_, start_ = 0, step_ = 1, at_ = 0;
};

}  // namespace

BlockRun::BlockRun() : fibers_(&BlockRun::work) {}

void BlockRun::work() { block_run().run_threads(); }

bool BlockRun::next_thread(int& thread) {
  while (started_ < (count_ + 31) / 32 * 32) {
    const int warp = warp_order_[static_cast<size_t>(started_ / 32)];
    thread = warp * 32 + static_cast<int>((static_cast<unsigned>(started_) % 32U) ^ lane_order_);
    ++started_;
    if (thread < count_) return true;
  }
  return false;
}

void BlockRun::run_thread(int thread) {
  thread_ = thread;
  const auto index = static_cast<unsigned>(thread);
  if (blockDim.y == 1 && blockDim.z == 1) {
    threadIdx = {index, 0, 0};
  } else {
    threadIdx = {index % blockDim.x, index / blockDim.x % blockDim.y, index / blockDim.x / blockDim.y};
  }
  (*run_.body)();
}

void BlockRun::run_threads() {
  for (;;) {
    try {
      for (int thread = 0; error_ == cudaSuccess && next_thread(thread);) {
        run_thread(thread);
        ++ended_;
      }
    } catch (const Abandoned&) {
    } catch (const std::exception& error) {
      fail(cudaErrorLaunchFailure, error.what());
    } catch (...) {
      fail(cudaErrorLaunchFailure, "an exception that is no std::exception");
    }
    Fiber& self = fibers_.running();
    Fiber& target = next();
    fibers_.give_back(self);
    ++switches_;
    fibers_.switch_to(target);
  }
}

void BlockRun::fail(cudaError_t error, std::string_view what) {
  if (error_ != cudaSuccess) return;
  error_ = error;
  std::fprintf(stderr, "emulator: %.*s, block (%u, %u, %u), thread (%u, %u, %u): %.*s\n",
               static_cast<int>(name_.size()), name_.data(), blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
               threadIdx.y, threadIdx.z, static_cast<int>(what.size()), what.data());
}

/// Ends the threads that wait, each by an exception out of its barrier.
void BlockRun::finish_block() {
  ready_head_ = ready_tail_ = 0;
  for (int thread = 0; thread < count_; ++thread) {
    Fiber* fiber = std::exchange(threads_[static_cast<size_t>(thread)].fiber, nullptr);
    if (fiber != nullptr) fibers_.switch_to(*fiber);
  }
  for (auto& groups : groups_) groups.clear();
}

void BlockRun::run_block(uint3 block) {
  blockIdx = block;
  started_ = ended_ = at_barrier_ = 0;
  ready_head_ = ready_tail_ = 0;
  poison(shared_.data(), shared_used_);
  if (run_.seed != 0) {
    lane_order_ = static_cast<unsigned>(mix(random_) % 32);
    const int warps = (count_ + 31) / 32;
    for (int i = warps - 1; i > 0; --i) {
      const auto other = static_cast<size_t>(mix(random_) % static_cast<uint64_t>(i + 1));
      std::swap(warp_order_[static_cast<size_t>(i)], warp_order_[other]);
    }
  }
  in_thread_ = true;
  fibers_.switch_to(fibers_.take());
  in_thread_ = false;
  threads_run_ += static_cast<uint64_t>(ended_);
  if (error_ == cudaSuccess && ended_ < count_) diverged();
  if (error_ != cudaSuccess) finish_block();
}

cudaError_t BlockRun::run(std::string_view name, const KernelRun& run) {
  name_ = name;
  run_ = run;
  random_ = run.seed;
  error_ = cudaSuccess;
  gridDim = run.grid;
  blockDim = run.block;
  count_ = static_cast<int>(run.block.x * run.block.y * run.block.z);
  lane_order_ = 0;
  for (size_t warp = 0; warp < warp_order_.size(); ++warp) warp_order_[warp] = static_cast<int>(warp);
  slots_.clear();
  shared_used_ = 0;
  const uint64_t blocks = uint64_t{run.grid.x} * run.grid.y * run.grid.z;
  BlockOrder order(blocks, run.seed);
  for (uint64_t i = 0; i < blocks && error_ == cudaSuccess; ++i) {
    const uint64_t number = order.next();
    const uint3 block = {static_cast<unsigned>(number % run.grid.x),
                         static_cast<unsigned>(number / run.grid.x % run.grid.y),
                         static_cast<unsigned>(number / run.grid.x / run.grid.y)};
    if (Observer* watcher = observer()) watcher->begin_block(block);
    run_block(block);
    if (Observer* watcher = observer()) watcher->end_block();
  }
  return error_;
}

char* BlockRun::shared_bytes(const void* place, size_t size, size_t alignment) {
  for (const Slot& slot : slots_) {
    if (slot.place == place) return slot.bytes;
  }
  const size_t begin = (shared_used_ + alignment - 1) / alignment * alignment;
  if (begin + size > shared_.size()) {
    fail(cudaErrorInvalidConfiguration, "more than 48 KiB of shared memory");
    throw Abandoned();
  }
  char* bytes = shared_.data() + begin;
  poison(bytes, size);
  shared_used_ = begin + size;
  slots_.push_back({place, bytes, size});
  return bytes;
}

bool valid_shape(dim3 grid, dim3 block) {
  const auto within = [](dim3 shape, unsigned x, unsigned y, unsigned z) {
    return shape.x >= 1 && shape.y >= 1 && shape.z >= 1 && shape.x <= x && shape.y <= y && shape.z <= z;
  };
  return within(grid, 0x7FFFFFFFU, 65535, 65535) && within(block, 1024, 1024, 64) &&
         block.x * block.y * block.z <= static_cast<unsigned>(kMaxThreads);
}

cudaError_t run_kernel(std::string_view name, const KernelRun& run) { return block_run().run(name, run); }
bool in_kernel() { return block_run().in_thread(); }
Span shared_memory() { return block_run().shared_memory(); }
Span thread_stack() { return block_run().thread_stack(); }
uint64_t threads_run() { return block_run().threads_run(); }
uint64_t fiber_switches() { return block_run().switches(); }

char* shared_bytes(const void* place, size_t size, size_t alignment) {
  return block_run().shared_bytes(place, size, alignment);
}

}  // namespace emulator
