#pragma once
// Instructions that access memory, and what the checker keeps for each.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/emulator/checker_memory.h"
#include "kernels/emulator/report.h"

namespace emulator {

struct Site {
  const void* pc = nullptr;  // return address of the hook
  uint32_t bytes = 0;
  bool shared = false;
  bool launcher = false;  // host code that kernels come with: what it reads of the host's is none of theirs
  uint16_t number = 0;    // 0: too many
  const Region* region = nullptr;
  uint64_t region_of = 0;  // operation that the region belongs to
  uint64_t reported_in = 0;
  uint32_t reported = 0;  // kinds, in that kernel
  std::vector<Requests> warps;
};

/// By instruction, size and memory; a hash table with open addressing, since it is asked at each access.
class Sites {
 public:
  Sites() : table_(1024) {}

  Site& find(const void* pc, size_t bytes, bool shared) {
    for (size_t at = hash(pc, bytes, shared);; ++at) {
      Site* const site = table_[at & (table_.size() - 1)];
      if (site == nullptr) return add(pc, bytes, shared);
      if (site->pc == pc && site->bytes == bytes && site->shared == shared) return *site;
    }
  }
  const void* pc(uint16_t number) const { return number == 0 ? nullptr : sites_[number - 1U].pc; }

 private:
  static size_t hash(const void* pc, size_t bytes, bool shared) {
    const uint64_t key = reinterpret_cast<uintptr_t>(pc) * 64 + bytes * 2 + (shared ? 1 : 0);
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15U) >> 32);
  }
  Site& add(const void* pc, size_t bytes, bool shared) {
    Site& site = sites_.emplace_back();
    site.pc = pc;
    site.bytes = static_cast<uint32_t>(bytes);
    site.shared = shared;
    if (sites_.size() <= UINT16_MAX) site.number = static_cast<uint16_t>(sites_.size());
    if (2 * sites_.size() > table_.size()) {
      table_.assign(2 * table_.size(), nullptr);
      for (Site& other : sites_) insert(other);
    } else {
      insert(site);
    }
    return site;
  }
  void insert(Site& site) {
    size_t at = hash(site.pc, site.bytes, site.shared);
    while (table_[at & (table_.size() - 1)] != nullptr) ++at;
    table_[at & (table_.size() - 1)] = &site;
  }

  std::deque<Site> sites_;
  std::vector<Site*> table_;
};

}  // namespace emulator
