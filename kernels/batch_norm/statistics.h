#pragma once
// Mean and squared deviations of the columns of a row-major matrix of floats, stored as such or in 16 bits, in one pass
// over memory.

#include <algorithm>
#include <cstdint>

namespace engine::kernels {

/// Rows that a chunk may hold: sums run in float within a chunk and in double across chunks.
inline int64_t chunk_rows(int64_t channels) { return std::clamp<int64_t>((1 << 15) / channels, 16, 512); }

struct ColumnStatistics {
  int64_t channels;
  double* mean;     // [channels]
  double* squares;  // [channels], sums of squared deviations from mean
  float* shift;     // [channels], scratch
  float* sum;       // [channels], scratch
  float* sum_sq;    // [channels], scratch
  int64_t rows = 0;

  /// Takes in x: [count, channels]. T: float, Half, BFloat16.
  template <typename T>
  void add(const T* x, int64_t count);

  /// Takes in what another one has seen.
  void merge(const ColumnStatistics& other);

 private:
  template <typename T>
  void add_chunk(const T* x, int64_t count);
};

}  // namespace engine::kernels
