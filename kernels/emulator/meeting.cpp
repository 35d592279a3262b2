// Where threads meet: barriers of the block, barriers, shuffles and votes of a warp.

#include <bit>
#include <cstdio>
#include <string>
#include <utility>

#include "kernels/emulator/block_run.h"
#include "kernels/emulator/observer.h"
#include "kernels/emulator/poison.h"

namespace emulator {
namespace {

constexpr const char* kMeetingNames[] = {"__syncwarp", "a shuffle", "a vote"};

}  // namespace

unsigned BlockRun::lanes_of(int warp) const {
  const int lanes = count_ - warp * 32;
  return lanes >= 32 ? 0xFFFFFFFFU : (1U << lanes) - 1;
}

void BlockRun::release(int thread) {
  Thread& waiting = threads_[static_cast<size_t>(thread)];
  ready_[ready_tail_++ % ready_.size()] = std::exchange(waiting.fiber, nullptr);
}

void BlockRun::release_block() {
  at_barrier_ = 0;
  if (Observer* watcher = observer()) watcher->block_barrier();
  const int first = run_.seed == 0 ? 0 : static_cast<int>(mix(random_) % static_cast<uint64_t>(count_));
  for (int i = 0; i < count_; ++i) {
    const int thread = first + i < count_ ? first + i : first + i - count_;
    if (thread != thread_) release(thread);
  }
}

void BlockRun::block_barrier() {
  if (++at_barrier_ < count_) {
    wait();
  } else {
    release_block();
  }
}

void BlockRun::finish_group(int warp, const Group& group) {
  if (Observer* watcher = observer()) watcher->warp_barrier(warp, group.mask);
  Thread* lanes = &threads_[static_cast<size_t>(warp) * 32];
  unsigned votes = 0;
  for (unsigned rest = group.mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (lanes[lane].bits != 0) votes |= 1U << lane;
  }
  for (unsigned rest = group.mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    Thread& thread = lanes[lane];
    if (group.meeting == Meeting::vote) {
      thread.result = votes;
    } else {
      thread.result = (group.mask >> thread.from & 1) != 0 ? lanes[thread.from].bits : kPoison;
    }
    if (warp * 32 + lane != thread_) release(warp * 32 + lane);
  }
}

uint64_t BlockRun::meet(Meeting meeting, unsigned mask, uint64_t bits, int from) {
  const int warp = thread_ / 32;
  const unsigned lane = static_cast<unsigned>(thread_) % 32;
  mask &= lanes_of(warp);
  if ((mask >> lane & 1) == 0) {
    const std::string what = std::string(kMeetingNames[static_cast<int>(meeting)]) + " by a lane outside of its mask";
    if (Observer* watcher = observer()) watcher->divergent_barrier(what);
    fail(cudaErrorLaunchFailure, what);
    throw Abandoned();
  }
  Thread& self = threads_[static_cast<size_t>(thread_)];
  self.bits = bits;
  self.from = from;
  auto& groups = groups_[static_cast<size_t>(warp)];
  size_t at = 0;
  while (at < groups.size() && (groups[at].mask != mask || groups[at].meeting != meeting)) ++at;
  if (at == groups.size()) groups.push_back({meeting, mask, 0});
  groups[at].arrived |= 1U << lane;
  if (groups[at].arrived != mask) {
    wait();
  } else {
    const Group complete = groups[at];
    groups[at] = groups.back();
    groups.pop_back();
    finish_group(warp, complete);
  }
  return self.result;
}

/// Some threads wait, and nobody is left who could come.
void BlockRun::diverged() {
  std::string what;
  if (at_barrier_ > 0) {
    what = "__syncthreads: " + std::to_string(at_barrier_) + " of " + std::to_string(count_) + " threads wait, " +
           std::to_string(ended_) + " ended";
  }
  for (size_t warp = 0; warp < groups_.size(); ++warp) {
    for (const Group& group : groups_[warp]) {
      char masks[80];
      std::snprintf(masks, sizeof masks, " of warp %zu with mask 0x%08x: lanes 0x%08x came", warp, group.mask,
                    group.arrived);
      what += (what.empty() ? "" : "; ") + std::string(kMeetingNames[static_cast<int>(group.meeting)]) + masks;
    }
  }
  int thread = 0;
  while (thread < count_ && threads_[static_cast<size_t>(thread)].fiber == nullptr) ++thread;
  const auto index = static_cast<unsigned>(thread);
  threadIdx = {index % blockDim.x, index / blockDim.x % blockDim.y, index / blockDim.x / blockDim.y};
  if (Observer* watcher = observer()) watcher->divergent_barrier(what);
  fail(cudaErrorLaunchFailure, what);
}

[[gnu::flatten]] uint64_t exchange(unsigned mask, uint64_t bits, int from_lane) {
  return block_run().meet(BlockRun::Meeting::exchange, mask, bits, from_lane);
}

[[gnu::flatten]] unsigned ballot(unsigned mask, bool predicate) {
  return static_cast<unsigned>(block_run().meet(BlockRun::Meeting::vote, mask, predicate ? 1 : 0, 0));
}

int lane_id() { return block_run().thread() % 32; }

}  // namespace emulator

[[gnu::flatten]] void __syncthreads() { emulator::block_run().block_barrier(); }
void __syncwarp(unsigned mask) { emulator::block_run().meet(emulator::BlockRun::Meeting::barrier, mask, 0, 0); }
void __threadfence() {}
