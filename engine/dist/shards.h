#pragma once
// Which rank owns which part of a flat buffer.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/parallel.h"

namespace engine {

struct FlatRange;

/// Consecutive ranges, one a rank, that cover a buffer; some may be empty.
class Shards {
 public:
  Shards() = default;
  /// `ends` ascend to the count; the first range begins at 0.
  explicit Shards(std::vector<int64_t> ends) : ends_(std::move(ends)) {}

  /// Equal ones, whose bounds are multiples of `alignment` (but for the last end).
  static Shards equal(int64_t count, int size, int64_t alignment = 1);
  /// Ones that split no parameter, for updates that need a parameter's norm: ends fall on the parameter's offset that
  /// is nearest to an equal share. `ranges` in the order of offsets, `count` with the last one's gap.
  static Shards of_parameters(std::span<const FlatRange> ranges, int64_t count, int size);

  int size() const { return static_cast<int>(ends_.size()); }
  int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  kernels::Range part(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return {at == 0 ? 0 : ends_[at - 1], ends_[at]};
  }
  /// The parts of [begin, end) of the buffer, counted from begin.
  Shards within(int64_t begin, int64_t end) const;

 private:
  std::vector<int64_t> ends_;
};

}  // namespace engine
