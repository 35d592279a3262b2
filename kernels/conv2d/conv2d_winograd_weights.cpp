#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/shares.h"
#include "kernels/common/storage_vec.h"
#include "kernels/conv2d/conv2d_winograd.h"
#include "kernels/conv2d/winograd_tiles.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

using winograd::kPoints;
using winograd::kProducts;

template <typename T>
struct Problem {
  winograd::Picture<T> x, grad_y;
  winograd::Tiling tiling;
  int64_t pad;

  int64_t k() const { return grad_y.c; }
  int64_t c() const { return x.c; }
};

// Room for the transforms of a block of tiles, as groups of grad_y's channels and panels of x's.
struct Transforms {
  template <typename T>
  explicit Transforms(const Problem<T>& problem)
      : grad_plane(panels_of(problem.k()) * kColumnsDepth * kGroupStride + kLanes),
        x_plane(panels_of(problem.c()) * kColumnsDepth * kPanel + kLanes) {}
  int64_t floats() const { return kProducts * (grad_plane + x_plane); }
  winograd::Planes grads(float* buffer) const {
    return {buffer, grad_plane, kPanel, kColumnsDepth * kGroupStride, kGroupStride};
  }
  winograd::Planes inputs(float* buffer) const {
    return {buffer + kProducts * grad_plane, x_plane, kPanel, kColumnsDepth * kPanel, kPanel};
  }

  int64_t grad_plane, x_plane;
};

// Transforms `tiles` into rows first, first + 1, ... of a buffer.
template <typename T>
void transform_tiles(const Problem<T>& problem, const Transforms& transforms, Range tiles, int64_t first,
                     float* buffer) {
  winograd::Planes grads = transforms.grads(buffer), inputs = transforms.inputs(buffer);
  grads.data += first * grads.row;
  inputs.data += first * inputs.row;
  winograd::transform_gradients(problem.grad_y, problem.tiling, tiles, grads);
  winograd::transform_inputs(problem.x, problem.tiling, problem.pad, tiles, inputs);
}

// Sums of products for a block of the filters, [product, k, c]; k and c begin at multiples of kPanel.
struct Sums {
  float* data;
  Range k, c;
  int64_t rows() const { return k.end - k.begin; }
  int64_t columns() const { return c.end - c.begin; }
  int64_t plane() const { return rows() * columns(); }
};

void add_products(const Transforms& transforms, float* buffer, int64_t tiles, const Sums& sums, bool accumulate) {
  const winograd::Planes grads = transforms.grads(buffer), inputs = transforms.inputs(buffer);
  for (int64_t product = 0; product < kProducts; ++product) {
    gemm_columns({.a = grads.data + product * grads.plane + grads.offset(0, sums.k.begin),
                  .a_stride = grads.block,
                  .b = inputs.data + product * inputs.plane + inputs.offset(0, sums.c.begin),
                  .b_stride = inputs.block,
                  .rows = sums.rows(),
                  .columns = sums.columns(),
                  .depth = tiles,
                  .c = sums.data + product * sums.plane(),
                  .c_stride = sums.columns(),
                  .accumulate = accumulate});
  }
}

// Transforms one row of the sums into filter gradients. `parts` sums that follow one another are added in their order.
void write_row(const Sums& sums, int64_t row, int64_t parts, int64_t c, bool accumulate, float* grad_weight) {
  const int64_t plane = sums.plane();
  for (int64_t column = 0; column < sums.columns(); column += kLanes) {
    const float* from = sums.data + row * sums.columns() + column;
    Vector half[kPoints][3];
    for (int64_t i = 0; i < kPoints; ++i) {
      Vector points[kPoints] = {};
      for (int64_t part = 0; part < parts; ++part) {
        for (int64_t j = 0; j < kPoints; ++j) points[j] += load(from + (part * kProducts + i * kPoints + j) * plane);
      }
      winograd::points_to_filter(points, half[i], 1, 1);
    }
    float* to = grad_weight + (sums.k.begin + row) * 9 * c + sums.c.begin + column;
    for (int64_t v = 0; v < 3; ++v) {
      Vector taps[3];
      winograd::points_to_filter(&half[0][v], taps, 3, 1);
      for (int64_t u = 0; u < 3; ++u) {
        float* tap = to + (u * 3 + v) * c;
        store(tap, accumulate ? load(tap) + taps[u] : taps[u]);
      }
    }
  }
}

// Plan for small filters: each thread sums over its own tiles, and the threads' sums are added at the end.
template <typename T>
void sum_by_tiles(const Problem<T>& problem, float* grad_weight) {
  const Transforms transforms(problem);
  const int64_t tiles = problem.tiling.count(), parts = std::min<int64_t>(max_threads(), tiles);
  const Sums all{nullptr, {0, problem.k()}, {0, problem.c()}};
  const int64_t sum_floats = kProducts * all.plane();
  Scratch scratch(Scratch::padded_floats(parts * sum_floats) + Scratch::padded_floats(parts * transforms.floats()));
  float* sums = scratch.take_floats(parts * sum_floats);
  float* buffers = scratch.take_floats(parts * transforms.floats());
  parallel_shares(tiles, parts, [&](int64_t part, Range range) {
    float* buffer = buffers + part * transforms.floats();
    for (int64_t begin = range.begin; begin < range.end; begin += kColumnsDepth) {
      const Range chunk{begin, std::min(range.end, begin + kColumnsDepth)};
      transform_tiles(problem, transforms, chunk, 0, buffer);
      add_products(transforms, buffer, chunk.end - chunk.begin, {sums + part * sum_floats, all.k, all.c},
                   begin > range.begin);
    }
  });
  parallel_for(problem.k(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      write_row({sums, all.k, all.c}, row, parts, problem.c(), false, grad_weight);
    }
  });
}

// Plan for large filters, whose sums would go to memory and back: some tiles are transformed for all threads, then each
// thread takes blocks of the filters through its cache.
constexpr int64_t kBlockK = kPanel, kBlockC = 128 / kPanel * kPanel;

template <typename T>
void sum_by_blocks(const Problem<T>& problem, float* grad_weight) {
  const Transforms transforms(problem);
  const int64_t k_blocks = (problem.k() + kBlockK - 1) / kBlockK, c_blocks = (problem.c() + kBlockC - 1) / kBlockC;
  const int64_t parts = std::min<int64_t>(max_threads(), k_blocks * c_blocks);
  constexpr int64_t kSumFloats = kProducts * kBlockK * kBlockC;
  Scratch scratch(Scratch::padded_floats(transforms.floats()) + Scratch::padded_floats(parts * kSumFloats));
  float *buffer = scratch.take_floats(transforms.floats()), *sums = scratch.take_floats(parts * kSumFloats);
  for (int64_t first = 0; first < problem.tiling.count(); first += kColumnsDepth) {
    const int64_t count = std::min(kColumnsDepth, problem.tiling.count() - first);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      transform_tiles(problem, transforms, {first + begin, first + end}, begin, buffer);
    });
    parallel_shares(k_blocks * c_blocks, parts, [&](int64_t part, Range items) {
      for (int64_t item = items.begin; item < items.end; ++item) {
        const int64_t k = item / c_blocks * kBlockK, c = item % c_blocks * kBlockC;
        const Sums block{
            sums + part * kSumFloats, {k, std::min(problem.k(), k + kBlockK)}, {c, std::min(problem.c(), c + kBlockC)}};
        add_products(transforms, buffer, count, block, false);
        for (int64_t row = 0; row < block.rows(); ++row) write_row(block, row, 1, problem.c(), first > 0, grad_weight);
      }
    });
  }
}

// Each thread's sums beyond this are not worth their way to memory: a few times a second-level cache.
constexpr int64_t kFewSumFloats = int64_t{1} << 20;

}  // namespace

template <typename T>
void conv2d_backward_weights_winograd(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape) {
  const Problem<T> problem{.x = {x, shape.h, shape.w, shape.c},
                           .grad_y = {grad_y, shape.out_h(), shape.out_w(), shape.k},
                           .tiling = {shape.n, shape.out_h(), shape.out_w()},
                           .pad = shape.pad_h};
  const bool few = kProducts * shape.k * shape.c <= kFewSumFloats;
  const auto sum_up = few ? sum_by_tiles<T> : sum_by_blocks<T>;
  if constexpr (kNarrow<T>) {
    const int64_t count = shape.weight_numel();
    Scratch scratch(Scratch::padded_floats(count));
    float* sums = scratch.take_floats(count);
    sum_up(problem, sums);
    parallel_for(count, 1 << 15,
                 [=](int64_t begin, int64_t end) { narrow(sums + begin, grad_weight + begin, end - begin); });
  } else {
    sum_up(problem, grad_weight);
  }
}

template void conv2d_backward_weights_winograd(const float*, const float*, float*, const Conv2dShape&);
template void conv2d_backward_weights_winograd(const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_backward_weights_winograd(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);

}  // namespace engine::kernels
