#include <algorithm>
#include <array>

#include "kernels/bias/bias.h"
#include "kernels/common/parallel.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;
constexpr int64_t kBlock = 16;  // channels that a thread sums at a time: a cache line of floats

// `width` is a constant for whole blocks, which lets the sums stay in registers.
template <typename T>
void sum_block(const T* grad_y, T* grad_bias, int64_t rows, int64_t channels, int64_t width) {
  std::array<double, kBlock> sums{};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < width; ++c) sums[static_cast<size_t>(c)] += grad_y[row * channels + c];
  }
  for (int64_t c = 0; c < width; ++c) grad_bias[c] = static_cast<T>(sums[static_cast<size_t>(c)]);
}

}  // namespace

template <typename T>
void bias_forward_cpu(const T* x, const T* bias, T* y, int64_t rows, int64_t channels) {
  parallel_for(rows, std::max<int64_t>(kGrain / std::max<int64_t>(channels, 1), 1), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x + row * channels;
      T* to = y + row * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) to[c] = from[c] + bias[c];
    }
  });
}

template <typename T>
void bias_backward_cpu(const T* grad_y, T* grad_bias, int64_t rows, int64_t channels) {
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
  const int64_t grain = std::max<int64_t>(kGrain / (std::max<int64_t>(rows, 1) * kBlock), 1);
  parallel_for(blocks, grain, [=](int64_t begin, int64_t end) {
    for (int64_t first = begin * kBlock; first < std::min(end * kBlock, channels); first += kBlock) {
      if (channels - first >= kBlock) {
        sum_block(grad_y + first, grad_bias + first, rows, channels, kBlock);
      } else {
        sum_block(grad_y + first, grad_bias + first, rows, channels, channels - first);
      }
    }
  });
}

template void bias_forward_cpu(const float*, const float*, float*, int64_t, int64_t);
template void bias_forward_cpu(const double*, const double*, double*, int64_t, int64_t);
template void bias_backward_cpu(const float*, float*, int64_t, int64_t);
template void bias_backward_cpu(const double*, double*, int64_t, int64_t);

}  // namespace engine::kernels
