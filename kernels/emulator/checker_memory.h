#pragma once
// Allocations as the checker knows them, and which of them an operation may touch.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/emulator/checker.h"
#include "kernels/emulator/checker_order.h"
#include "kernels/emulator/checker_shadow.h"
#include "kernels/emulator/observer.h"

namespace emulator {

/// The last operation of a stream that touched an allocation.
struct Use {
  uint32_t stream, number;
  std::string name;
};

struct Memory {
  Allocation allocation;
  Moment birth;
  std::optional<Moment> death;
  bool given_back = false;                // a graph's memory, between its release and its next allocation
  bool assume_written = false;            // the host writes it unseen, or it was there before the checker
  bool old = false;                       // from before the checker
  bool touched = false, changed = false;  // by the running operation
  Shadow shadow;
  std::vector<Use> uses;

  bool pinned() const { return allocation.device < 0; }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(allocation.base); }
};

/// Addresses of an allocation that the running operation may touch.
struct Region {
  uintptr_t begin = 0;
  size_t bytes = 0;
  Memory* memory = nullptr;
};

/// Why an address belongs to no region.
struct Miss {
  FindingKind kind = FindingKind::host_memory;
  std::string where;   // "offset 4096 of an allocation of 4096 bytes"
  bool fatal = false;  // a device would stop here
};

class MemoryMap {
 public:
  Memory& add(const Allocation& allocation, Moment birth);
  /// Null: unknown.
  Memory* find(uint64_t id);
  /// By its first address; of several, the youngest.
  Memory* find_at(const void* base);
  /// What may be touched from now on.
  void enter(const Moment& running);
  /// Notes who touched what; nothing is running any more.
  void leave(const Moment& ran, std::string_view name);
  /// Drops what is dead and can come no more.
  void forget_dead(const StreamOrder& order);

  /// The region with that address.
  const Region* region(uintptr_t address) const {
    if (address - first_ >= span_) return nullptr;
    return search(address);
  }
  Miss explain(uintptr_t address, const Moment& running) const;

  /// Calls visit(memory) for each.
  template <typename Visit>
  void each(Visit visit) {
    for (auto& memory : memories_) visit(*memory);
  }

 private:
  struct Grave {
    uintptr_t begin;
    size_t bytes;
  };
  struct Range {
    uintptr_t begin, end;
  };
  const Region* search(uintptr_t address) const;

  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<Region> regions_;  // by address
  uintptr_t first_ = 0, span_ = 0;
  std::deque<Grave> graves_;
  std::vector<Range> devices_;  // addresses seen, by device
};

}  // namespace emulator
