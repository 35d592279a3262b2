#include "kernels/emulator/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "kernels/emulator/poison.h"

namespace emulator {
namespace {

constexpr size_t kMapStep = size_t{64} << 20;
constexpr int kGuard = 0xFB;

/// A quarter of a power of two, so that blocks of similar sizes replace each other.
size_t size_class(size_t bytes) {
  const size_t step = std::max(std::bit_ceil(bytes) / 8, kGuardBytes);
  return (bytes + step - 1) / step * step;
}

/// Offset of the first byte that is not the guard's, or bytes.
size_t intact(const char* zone, size_t bytes) {
  uint64_t pattern = 0;
  std::memset(&pattern, kGuard, sizeof pattern);
  size_t at = 0;
  for (; at + sizeof pattern <= bytes && std::memcmp(zone + at, &pattern, sizeof pattern) == 0;) at += sizeof pattern;
  while (at < bytes && static_cast<unsigned char>(zone[at]) == kGuard) ++at;
  return at;
}

}  // namespace

Arena::Arena(int device, size_t quarantine_bytes) : device_(device), quarantine_limit_(quarantine_bytes) {
  for (size_t bytes = size_t{1} << 38; bytes >= size_t{1} << 33; bytes /= 2) {
    void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    begin_ = fresh_ = mapped_ = static_cast<char*>(range);
    end_ = begin_ + bytes;
    madvise(begin_, bytes, MADV_HUGEPAGE);
    return;
  }
  throw std::bad_alloc();
}

Arena::~Arena() { munmap(begin_, static_cast<size_t>(end_ - begin_)); }

void Arena::protect(int how) {
  if (mapped_ > begin_) mprotect(begin_, static_cast<size_t>(mapped_ - begin_), how);
}

void Arena::guard(bool guarded) {
  if (!guarded) open();
  guarded_ = guarded;
  if (guarded) close();
}

void Arena::reopen() {
  protect(PROT_READ | PROT_WRITE);
  open_ = true;
}

void Arena::close() {
  if (!guarded_ || !open_) return;
  protect(PROT_NONE);
  open_ = false;
}

char* Arena::place(size_t footprint) {
  const auto found = reusable_.find(footprint);
  if (found != reusable_.end() && !found->second.empty()) {
    char* start = found->second.back();
    found->second.pop_back();
    return start;
  }
  if (footprint > static_cast<size_t>(end_ - fresh_)) return nullptr;
  char* start = fresh_;
  if (start + footprint > mapped_) {
    const size_t wanted = static_cast<size_t>(start + footprint - mapped_);
    const size_t step = std::min((wanted + kMapStep - 1) / kMapStep * kMapStep, static_cast<size_t>(end_ - mapped_));
    if (mprotect(mapped_, step, PROT_READ | PROT_WRITE) != 0) return nullptr;
    mapped_ += step;
  }
  fresh_ += footprint;
  poison(start, footprint);
  return start;
}

Block* Arena::allocate(size_t bytes) {
  static std::atomic<uint64_t> ids = 0;
  open();
  const size_t footprint = size_class(bytes + 2 * kGuardBytes);
  char* start = place(footprint);
  if (start == nullptr) return nullptr;
  char* base = start + kGuardBytes;
  std::memset(start, kGuard, kGuardBytes);
  std::memset(base + bytes, kGuard, footprint - kGuardBytes - bytes);
  Block& block = blocks_[base];
  block.allocation = {base, bytes, device_, ++ids};
  block.start = start;
  block.footprint = footprint;
  return &block;
}

bool Arena::check(Block& block) {
  if (block.broken) return true;
  const Allocation& a = block.allocation;
  const size_t behind = block.footprint - kGuardBytes - a.bytes;
  const size_t front = intact(block.start, kGuardBytes), back = intact(a.base + a.bytes, behind);
  if (front == kGuardBytes && back == behind) return true;
  block.broken = true;
  const bool before = front != kGuardBytes;
  const std::string where = a.device < 0 ? "pinned memory" : "device " + std::to_string(a.device);
  std::fprintf(stderr, "emulator: allocation %llu of %zu bytes at %p, %s: something wrote %zu bytes %s\n",
               static_cast<unsigned long long>(a.id), a.bytes, static_cast<void*>(a.base), where.c_str(),
               before ? kGuardBytes - front : back + 1, before ? "before it" : "past its end");
  return false;
}

bool Arena::release(Block& block) {
  open();
  const bool good = check(block);
  const Waiting waiting{block.start, block.footprint};
  poison(waiting.start, waiting.footprint);
  blocks_.erase(block.allocation.base);
  quarantine_.push_back(waiting);
  quarantined_ += waiting.footprint;
  while (quarantined_ > quarantine_limit_) {
    const Waiting oldest = quarantine_.front();
    quarantine_.pop_front();
    quarantined_ -= oldest.footprint;
    reusable_[oldest.footprint].push_back(oldest.start);
  }
  return !good;
}

Block* Arena::find(const void* address) {
  if (!contains(address)) return nullptr;
  auto next = blocks_.upper_bound(static_cast<const char*>(address));
  if (next == blocks_.begin()) return nullptr;
  Block& block = std::prev(next)->second;
  return address < block.allocation.base + block.allocation.bytes ? &block : nullptr;
}

bool Arena::broken_guards() {
  open();
  bool found = false;
  for (auto& [base, block] : blocks_) found = !check(block) || found;
  return found;
}

}  // namespace emulator
