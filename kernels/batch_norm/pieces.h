#pragma once
// The second pass of batch norm over a share of the rows, in pieces of one row.

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/batch_norm/statistics.h"
#include "kernels/common/parallel.h"
#include "kernels/common/stream.h"

namespace engine::kernels {

inline constexpr int64_t kPieceChannels = 1024;

/// Calls f(first element, channel, width) for each piece of each row. Chunks of rows go backwards, because the pass
/// before has left the last ones in the cache.
template <typename F>
void for_each_piece_backwards(Range rows, int64_t channels, F&& f) {
  const int64_t step = chunk_rows(channels);
  for (int64_t end = rows.end; end > rows.begin; end -= step) {
    for (int64_t row = std::max(rows.begin, end - step); row < end; ++row) {
      for (int64_t channel = 0; channel < channels; channel += kPieceChannels) {
        f(row * channels + channel, channel, std::min(kPieceChannels, channels - channel));
      }
    }
  }
}

/// Where a piece's result is written: the tensor itself, or a buffer that goes to the tensor past the cache.
template <typename T>
class StreamBuffer {
 public:
  StreamBuffer(T* target, bool past_cache) : target_(target), past_cache_(past_cache) {}

  T* data() { return past_cache_ ? values_.data() : target_; }
  void flush(int64_t width) const {
    if (past_cache_) stream_store(values_.data(), target_, width);
  }

 private:
  alignas(64) std::array<T, kPieceChannels> values_;
  T* target_;
  bool past_cache_;
};

}  // namespace engine::kernels
