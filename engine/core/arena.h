#pragma once
// Bookkeeping of blocks inside a range of addresses; it touches none of them.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace engine {

/// Best fit with coalescing over the offsets [0, capacity). Not thread safe.
class Arena {
 public:
  explicit Arena(int64_t capacity) : capacity_(capacity) {}

  /// The offset of a block of `bytes` (> 0, a multiple of the caller's alignment); none where no gap is large enough.
  std::optional<int64_t> allocate(int64_t bytes);
  /// Gives a block back; `bytes` as it was asked for.
  void free(int64_t offset, int64_t bytes);
  /// One past the highest offset ever handed out.
  int64_t high_water() const { return high_water_; }
  /// The largest block that can be had now.
  int64_t largest_free() const;

 private:
  void insert_gap(int64_t offset, int64_t bytes);
  void erase_gap(std::map<int64_t, int64_t>::iterator gap);

  int64_t capacity_;
  int64_t top_ = 0;  // all blocks and gaps lie below
  int64_t high_water_ = 0;
  std::map<int64_t, int64_t> gaps_;                     // offset -> bytes
  std::set<std::pair<int64_t, int64_t>> gaps_by_size_;  // (bytes, offset)
};

}  // namespace engine
