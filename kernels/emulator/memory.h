#pragma once
// Addresses of one memory: a device's, or pinned host memory.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/emulator/observer.h"

namespace emulator {

inline constexpr size_t kGuardBytes = 256;

struct Block {
  Allocation allocation;
  char* start = nullptr;  // of the zone in front
  size_t footprint = 0;   // with both guard zones
  bool pooled = false;    // by cudaMallocAsync
  bool in_graph = false;  // belongs to a graph, which gives it back
  bool live = true;       // to the program: false from the call that frees it
  bool broken = false;    // told already
};

/// A range of addresses of its own. Blocks lie between guard zones of kGuardBytes, are filled with poison when they are
/// first handed out and when they are released, and wait in a quarantine before they are used again.
class Arena {
 public:
  Arena(int device, size_t quarantine_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// bytes > 0. Null where the host has no more memory.
  Block* allocate(size_t bytes);
  /// Says and returns whether a guard zone was broken.
  bool release(Block& block);
  /// The block that contains the address, released ones excepted.
  Block* find(const void* address);
  bool contains(const void* address) const { return address >= begin_ && address < end_; }
  /// Says on stderr which guard zones are broken, each block once.
  bool broken_guards();
  /// Guarded memory is closed to everybody until open(), which the arena calls before it touches the memory itself.
  void guard(bool guarded);
  void open() {
    if (!open_) reopen();
  }
  void close();
  /// Whatever the arena believes: a thread that was stopped may have been about to close it.
  void reopen();
  /// Whether the address is part of memory that is or was closed just now.
  bool closed_at(const void* address) const { return guarded_ && address >= begin_ && address < mapped_; }
  void set_quarantine(size_t bytes) { quarantine_limit_ = bytes; }

  /// Calls with each block that has not been released.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& [base, block] : blocks_) visit(block);
  }

 private:
  char* place(size_t footprint);
  void protect(int how);
  bool check(Block& block);

  int device_;
  std::atomic<bool> guarded_ = false, open_ = true;
  char* begin_ = nullptr;
  char* end_ = nullptr;
  char* fresh_ = nullptr;   // never handed out from here on
  char* mapped_ = nullptr;  // readable up to here
  std::map<const char*, Block> blocks_;
  std::unordered_map<size_t, std::vector<char*>> reusable_;  // by footprint
  struct Waiting {
    char* start;
    size_t footprint;
  };
  std::deque<Waiting> quarantine_;
  size_t quarantined_ = 0, quarantine_limit_;
};

}  // namespace emulator
