#include "engine/core/arena.h"

#include <algorithm>
#include <iterator>

namespace engine {

std::optional<int64_t> Arena::allocate(int64_t bytes) {
  const auto best = gaps_by_size_.lower_bound({bytes, 0});
  if (best != gaps_by_size_.end()) {
    const auto [size, offset] = *best;
    erase_gap(gaps_.find(offset));
    if (size > bytes) insert_gap(offset + bytes, size - bytes);
    return offset;
  }
  if (bytes > capacity_ - top_) return std::nullopt;
  const int64_t offset = top_;
  top_ += bytes;
  high_water_ = std::max(high_water_, top_);
  return offset;
}

void Arena::free(int64_t offset, int64_t bytes) {
  auto after = gaps_.lower_bound(offset);
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      erase_gap(before);
    }
  }
  after = gaps_.lower_bound(offset);
  if (after != gaps_.end() && offset + bytes == after->first) {
    bytes += after->second;
    erase_gap(after);
  }
  // A gap that reaches the top lowers it, so that a larger block can begin there.
  if (offset + bytes == top_) {
    top_ = offset;
  } else {
    insert_gap(offset, bytes);
  }
}

int64_t Arena::largest_free() const {
  const int64_t gap = gaps_by_size_.empty() ? 0 : gaps_by_size_.rbegin()->first;
  return std::max(gap, capacity_ - top_);
}

void Arena::insert_gap(int64_t offset, int64_t bytes) {
  gaps_.emplace(offset, bytes);
  gaps_by_size_.emplace(bytes, offset);
}

void Arena::erase_gap(std::map<int64_t, int64_t>::iterator gap) {
  gaps_by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

}  // namespace engine
