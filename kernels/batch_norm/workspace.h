#pragma once
// How the fast batch-norm kernels split rows over threads and lay out their workspace: a few vectors of `channels` for
// each thread and a few for all.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/statistics.h"
#include "kernels/common/parallel.h"

namespace engine::kernels {

class BatchNormWorkspace {
 public:
  static int64_t bytes(int64_t channels) {
    return padded(channels) * (max_threads() * kPartBytes + kShared * static_cast<int64_t>(sizeof(float)));
  }

  BatchNormWorkspace(std::byte* memory, int64_t rows, int64_t channels)
      : memory_(memory),
        rows_(rows),
        channels_(channels),
        parts_(std::clamp<int64_t>(rows * channels / kGrain, 1, std::min<int64_t>(max_threads(), rows))) {}

  int64_t parts() const { return parts_; }
  Range rows_of(int64_t part) const { return share_of(rows_, part, parts_); }

  /// Calls f(part, rows) for each part, in parallel; the same thread gets the same rows each time.
  template <typename F>
  void for_each_part(F&& f) const {
    parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) f(part, rows_of(part));
    });
  }

  /// Two vectors of doubles a part.
  double* sums(int64_t part, int64_t which) const {
    return reinterpret_cast<double*>(part_memory(part)) + which * padded(channels_);
  }

  /// Three vectors of floats a part.
  float* scratch(int64_t part, int64_t which) const {
    return reinterpret_cast<float*>(part_memory(part) + 2 * kDouble * padded(channels_)) + which * padded(channels_);
  }

  /// Four vectors of floats for all parts.
  float* shared(int64_t which) const {
    return reinterpret_cast<float*>(part_memory(max_threads())) + which * padded(channels_);
  }

  /// Statistics in a part's memory that have seen that many rows.
  ColumnStatistics statistics(int64_t part, int64_t rows_seen) const {
    return {channels_, sums(part, 0), sums(part, 1), scratch(part, 0), scratch(part, 1), scratch(part, 2), rows_seen};
  }

 private:
  static constexpr int64_t kGrain = 1 << 15, kShared = 4;
  static constexpr int64_t kDouble = sizeof(double), kPartBytes = 2 * kDouble + 3 * sizeof(float);

  // Whole cache lines, so that threads share none.
  static int64_t padded(int64_t channels) { return (channels + 15) / 16 * 16; }
  std::byte* part_memory(int64_t part) const { return memory_ + part * kPartBytes * padded(channels_); }

  std::byte* memory_;
  int64_t rows_, channels_, parts_;
};

/// Takes the statistics of args.x, writes args' saved and running ones, and fills scale = gamma * invstd, [channels].
template <typename T>
void save_batch_statistics(const BatchNormForward<T>& args, const BatchNormWorkspace& workspace, float* scale);

/// Vectors of [channels]: grad_x = g * scale + (x - mean) * slope + offset, g the masked grad_y.
struct BatchNormCoefficients {
  const float* mean;
  float* scale;
  float* slope;
  float* offset;
};

/// Adds up the parts' sums of g (first vector) and of g * (x - mean) (second), writes the gradients of gamma and beta,
/// and fills slope and offset.
template <typename T>
void finish_sums(const BatchNormBackward<T>& args, const BatchNormWorkspace& workspace, const float* invstd,
                 const BatchNormCoefficients& k);

}  // namespace engine::kernels
