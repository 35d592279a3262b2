#pragma once
// Which accesses collide: two to the same place, one of them a write, not both atomic, and nothing that orders them.
// Decided from what the program asked for (checker_order.h), so that the order in which the emulator happened to run
// things makes no difference.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/emulator/checker_order.h"
#include "kernels/emulator/checker_shadow.h"

namespace emulator {

/// Who accesses. Operations that are no kernels are thread 0.
struct Actor {
  uint32_t thread = 0;
  uint16_t site = 0;  // instruction
  bool write = false, atomic = false;
  bool erases = false;  // a write that leaves nothing: memory is given out or back
};

enum class Relation { ordered, same_block, other_block, other_operation };

/// What an access found.
struct Visit {
  Relation race = Relation::ordered;
  bool unwritten = false;   // a read of what nobody wrote
  bool with_write = false;  // the race's other side
  uint32_t phase = 0, thread = 0;
  uint16_t site = 0;
};

class Races {
 public:
  ThreadOrder threads;

  void begin_operation(const Moment& moment, std::string_view name);
  const Moment& running() const { return past_.back().moment; }
  /// Forgets operations, the oldest first, as long as over(moment) says that whatever comes is behind them.
  void settle(const std::function<bool(const Moment&)>& over);
  /// Checks an access and remembers it. Shared memory lives as long as a block.
  Visit visit(Cell& cell, const Actor& actor, bool shared);
  static bool written(const Cell& cell) { return cell.write.phase != 0 && !cell.write.erased; }
  /// Operation that a phase belongs to; empty where it is forgotten.
  std::string_view operation(uint32_t phase) const;

 private:
  struct Past {
    uint32_t first_phase;
    Moment moment;
    std::string name;
  };
  const Past* past(uint32_t phase) const;
  bool over(uint32_t phase);
  Relation relation(const Track& track, const Actor& actor);
  uint32_t culprit(const Track& track, Relation relation) const;
  static uint32_t other_thread(const Track& track, const Actor& actor);
  void mark(Track& track, const Actor& actor);
  uint32_t with_reader(uint32_t number, uint32_t phase);
  void check_readers(const Cell& cell, Visit& visit);

  std::vector<Past> past_;
  uint32_t settled_ = 0;
  uint32_t cached_begin_ = 0, cached_end_ = 0;
  bool cached_ = false;
  // Sets of operations, by their phases, which read a cell and are ordered neither with each other nor with a later
  // one. Set 0 is empty, and so are those before first_set_: cells remember numbers that settle() has done away with.
  const std::vector<uint32_t>& set(uint32_t number) const;
  std::vector<std::vector<uint32_t>> sets_;
  uint32_t first_set_ = 1;
  std::map<std::vector<uint32_t>, uint32_t> set_numbers_;
  std::unordered_map<uint64_t, uint32_t> grown_;  // set and phase -> set, in this operation
};

}  // namespace emulator
