#include "engine/dist/shards.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/nn/flat_parameters.h"

namespace engine {

Shards Shards::equal(int64_t count, int size, int64_t alignment) {
  ENGINE_CHECK(size >= 1 && alignment >= 1 && count >= 0, "[shards] got {} elements for {} ranks, aligned to {}", count,
               size, alignment);
  const int64_t units = (count + alignment - 1) / alignment;
  std::vector<int64_t> ends;
  for (int rank = 0; rank < size; ++rank) {
    ends.push_back(std::min(count, kernels::share_of(units, rank, size).end * alignment));
  }
  return Shards(std::move(ends));
}

Shards Shards::of_parameters(std::span<const FlatRange> ranges, int64_t count, int size) {
  ENGINE_CHECK(size >= 1, "[shards] ranks: got {}, expected 1 or more", size);
  std::vector<int64_t> bounds;
  for (const FlatRange& range : ranges) bounds.push_back(range.offset);
  bounds.push_back(count);
  ENGINE_CHECK(std::is_sorted(bounds.begin(), bounds.end()), "[shards] ranges: expected the order of offsets");
  std::vector<int64_t> ends;
  for (int rank = 0; rank < size; ++rank) {
    const int64_t wanted = kernels::share_of(count, rank, size).end;
    const auto above = std::lower_bound(bounds.begin(), bounds.end(), wanted);
    int64_t end = *above;
    if (above != bounds.begin() && wanted - above[-1] < end - wanted) end = above[-1];
    ends.push_back(rank + 1 == size ? count : end);
  }
  return Shards(std::move(ends));
}

Shards Shards::within(int64_t begin, int64_t end) const {
  std::vector<int64_t> ends;
  for (const int64_t bound : ends_) ends.push_back(std::clamp(bound, begin, end) - begin);
  return Shards(std::move(ends));
}

}  // namespace engine
