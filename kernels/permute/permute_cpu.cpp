#include <algorithm>

#include "kernels/common/parallel.h"
#include "kernels/permute/permute.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;
constexpr int64_t kTile = 16;  // both sides of a tile are then whole cache lines of floats

template <typename T>
void transpose(const T* x, T* y, int64_t rows, int64_t columns) {
  for (int64_t first_row = 0; first_row < rows; first_row += kTile) {
    for (int64_t first = 0; first < columns; first += kTile) {
      for (int64_t column = first; column < std::min(first + kTile, columns); ++column) {
        for (int64_t row = first_row; row < std::min(first_row + kTile, rows); ++row) {
          y[column * rows + row] = x[row * columns + column];
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void permute_channels_first_cpu(const T* x, T* y, int64_t outer, int64_t spatial, int64_t channels) {
  const int64_t inner = spatial * channels;
  parallel_for(outer, kGrain / (inner + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) transpose(x + i * inner, y + i * inner, spatial, channels);
  });
}

template <typename T>
void permute_channels_last_cpu(const T* x, T* y, int64_t outer, int64_t spatial, int64_t channels) {
  permute_channels_first_cpu(x, y, outer, channels, spatial);
}

template void permute_channels_first_cpu(const float*, float*, int64_t, int64_t, int64_t);
template void permute_channels_first_cpu(const double*, double*, int64_t, int64_t, int64_t);
template void permute_channels_first_cpu(const Half*, Half*, int64_t, int64_t, int64_t);
template void permute_channels_first_cpu(const BFloat16*, BFloat16*, int64_t, int64_t, int64_t);
template void permute_channels_last_cpu(const float*, float*, int64_t, int64_t, int64_t);
template void permute_channels_last_cpu(const double*, double*, int64_t, int64_t, int64_t);
template void permute_channels_last_cpu(const Half*, Half*, int64_t, int64_t, int64_t);
template void permute_channels_last_cpu(const BFloat16*, BFloat16*, int64_t, int64_t, int64_t);

}  // namespace engine::kernels
