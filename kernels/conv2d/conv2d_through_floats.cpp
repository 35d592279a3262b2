#include "kernels/conv2d/conv2d_through_floats.h"

#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;

// Floats of pictures that are converted at once: what third-level caches hold.
constexpr int64_t kChunkFloats = int64_t{2} << 20;

template <typename T>
void widen_all(const T* from, float* to, int64_t count) {
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) { widen(from + begin, to + begin, end - begin); });
}

template <typename T>
void narrow_all(const float* from, T* to, int64_t count) {
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) { narrow(from + begin, to + begin, end - begin); });
}

// Calls f(first picture, shape of the chunk) for chunks of the batch.
template <typename F>
void for_each_chunk(const Conv2dShape& shape, F&& f) {
  Conv2dShape chunk = shape;
  for (int64_t first = 0; first < shape.n; first += chunk.n) {
    const int64_t picture = (shape.x_numel() + shape.y_numel()) / shape.n;
    chunk.n = std::min(shape.n - first, std::max<int64_t>(kChunkFloats / picture, max_threads()));
    f(first, chunk);
  }
}

// Floats for the largest chunk's pictures, for filters and for what else a direction needs.
struct Floats {
  Floats(const Conv2dShape& shape, int64_t more)
      : chunk(largest_chunk(shape)),
        scratch(Scratch::padded_floats(chunk.x_numel()) + Scratch::padded_floats(chunk.y_numel()) +
                Scratch::padded_floats(shape.weight_numel()) + Scratch::padded_floats(more)),
        x(scratch.take_floats(chunk.x_numel())),
        y(scratch.take_floats(chunk.y_numel())),
        weight(scratch.take_floats(shape.weight_numel())),
        other(scratch.take_floats(more)) {}

  static Conv2dShape largest_chunk(const Conv2dShape& shape) {
    Conv2dShape largest = shape;
    largest.n = 0;
    for_each_chunk(shape, [&](int64_t, const Conv2dShape& one) { largest.n = std::max(largest.n, one.n); });
    return largest;
  }

  Conv2dShape chunk;
  Scratch scratch;
  float *x, *y, *weight, *other;
};

}  // namespace

template <typename T>
void conv2d_forward_through_floats(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape) {
  const Floats floats(shape, shape.k);
  widen_all(weight, floats.weight, shape.weight_numel());
  if (bias != nullptr) widen_all(bias, floats.other, shape.k);
  for_each_chunk(shape, [&](int64_t first, const Conv2dShape& chunk) {
    widen_all(x + first * (shape.x_numel() / shape.n), floats.x, chunk.x_numel());
    conv2d_forward_fast(floats.x, floats.weight, bias == nullptr ? nullptr : floats.other, floats.y, chunk);
    narrow_all(floats.y, y + first * (shape.y_numel() / shape.n), chunk.y_numel());
  });
}

template <typename T>
void conv2d_backward_data_through_floats(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape) {
  const Floats floats(shape, 0);
  widen_all(weight, floats.weight, shape.weight_numel());
  for_each_chunk(shape, [&](int64_t first, const Conv2dShape& chunk) {
    widen_all(grad_y + first * (shape.y_numel() / shape.n), floats.y, chunk.y_numel());
    conv2d_backward_data_fast(floats.y, floats.weight, floats.x, chunk);
    narrow_all(floats.x, grad_x + first * (shape.x_numel() / shape.n), chunk.x_numel());
  });
}

template <typename T>
void conv2d_backward_weights_through_floats(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape) {
  const int64_t count = shape.weight_numel();
  const Floats floats(shape, count);
  float *sums = floats.weight, *part = floats.other;
  for_each_chunk(shape, [&](int64_t first, const Conv2dShape& chunk) {
    widen_all(x + first * (shape.x_numel() / shape.n), floats.x, chunk.x_numel());
    widen_all(grad_y + first * (shape.y_numel() / shape.n), floats.y, chunk.y_numel());
    conv2d_backward_weights_fast(floats.x, floats.y, first == 0 ? sums : part, nullptr, chunk);
    if (first == 0) return;
    parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sums[i] += part[i];
    });
  });
  narrow_all(sums, grad_weight, count);
}

template void conv2d_forward_through_floats(const Half*, const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_forward_through_floats(const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*,
                                            const Conv2dShape&);
template void conv2d_backward_data_through_floats(const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_backward_data_through_floats(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template void conv2d_backward_weights_through_floats(const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_backward_weights_through_floats(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);

}  // namespace engine::kernels
