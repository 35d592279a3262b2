#include "kernels/batch_norm/statistics.h"

#include "kernels/common/storage_vec.h"
#include "kernels/common/stream.h"

namespace engine::kernels {
namespace {

// sum += x - shift and sum_sq += (x - shift)^2 over the rows; four rows at a time halve the traffic to the sums.
template <typename T>
void accumulate(const T* x, int64_t rows, const ColumnStatistics& s) {
  const int64_t c = s.channels;
  const float* shift = s.shift;
  float *sum = s.sum, *sum_sq = s.sum_sq;
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T *x0 = x + row * c, *x1 = x0 + c, *x2 = x1 + c, *x3 = x2 + c;
    prefetch_ahead(x0, 4 * c);
    for_each_vector(c, [=]<typename V>(int64_t i) {
      const V by = load_as<V>(shift + i);
      const V d0 = load_as<V>(x0 + i) - by, d1 = load_as<V>(x1 + i) - by;
      const V d2 = load_as<V>(x2 + i) - by, d3 = load_as<V>(x3 + i) - by;
      store_as(sum + i, load_as<V>(sum + i) + ((d0 + d1) + (d2 + d3)));
      store_as(sum_sq + i, load_as<V>(sum_sq + i) + ((d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)));
    });
  }
  for (; row < rows; ++row) {
    const T* x0 = x + row * c;
    for_each_vector(c, [=]<typename V>(int64_t i) {
      const V d = load_as<V>(x0 + i) - load_as<V>(shift + i);
      store_as(sum + i, load_as<V>(sum + i) + d);
      store_as(sum_sq + i, load_as<V>(sum_sq + i) + d * d);
    });
  }
}

}  // namespace

// The shift makes the sums small. It is the mean of the chunk before, so when it is far from this chunk's mean, the two
// chunks differ by as much and that distance is part of the variance: the rounding error stays relative to the result.
template <typename T>
void ColumnStatistics::add_chunk(const T* x, int64_t count) {
  std::fill_n(sum, channels, 0.0F);
  std::fill_n(sum_sq, channels, 0.0F);
  accumulate(x, count, *this);
  const double n = static_cast<double>(count), before = static_cast<double>(rows), all = before + n;
#pragma omp simd
  for (int64_t i = 0; i < channels; ++i) {
    const double offset = sum[i] / n;
    const double chunk_mean = shift[i] + offset, delta = chunk_mean - mean[i];
    mean[i] += delta * (n / all);
    const double inside = sum_sq[i] - offset * offset * n;
    squares[i] += (inside < 0 ? 0 : inside) + delta * delta * (before * n / all);
    shift[i] = static_cast<float>(chunk_mean);
  }
  rows += count;
}

template <typename T>
void ColumnStatistics::add(const T* x, int64_t count) {
  if (rows == 0) {
    std::fill_n(mean, channels, 0.0);
    std::fill_n(squares, channels, 0.0);
    // No chunk before the first: its first rows give a shift, by way of the first row.
    widen(x, shift, channels);
    std::fill_n(sum, channels, 0.0F);
    const int64_t probe = std::min<int64_t>(count, 16);
    accumulate(x, probe, *this);
    for (int64_t i = 0; i < channels; ++i) shift[i] += sum[i] / static_cast<float>(probe);
  }
  const int64_t step = chunk_rows(channels);
  for (int64_t row = 0; row < count; row += step) add_chunk(x + row * channels, std::min(step, count - row));
}

void ColumnStatistics::merge(const ColumnStatistics& other) {
  if (other.rows == 0) return;
  const double n = static_cast<double>(other.rows), before = static_cast<double>(rows), all = before + n;
  for (int64_t i = 0; i < channels; ++i) {
    const double delta = other.mean[i] - mean[i];
    mean[i] += delta * (n / all);
    squares[i] += other.squares[i] + delta * delta * (before * n / all);
  }
  rows += other.rows;
}

template void ColumnStatistics::add(const float*, int64_t);
template void ColumnStatistics::add(const Half*, int64_t);
template void ColumnStatistics::add(const BFloat16*, int64_t);

}  // namespace engine::kernels
