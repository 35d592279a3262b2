#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/shares.h"
#include "kernels/conv2d/conv2d_winograd.h"
#include "kernels/conv2d/winograd_tiles.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

using winograd::kPoints;
using winograd::kProducts;

struct Problem {
  winograd::Picture x, grad_y;
  winograd::Tiling tiling;
  int64_t pad;

  // Sums of one thread: [product, k, c].
  int64_t sum_floats() const { return kProducts * grad_y.c * x.c; }
};

// Transformed tiles of a block, as groups of grad_y's channels and panels of x's.
struct Blocks {
  explicit Blocks(const Problem& problem)
      : grad_plane(panels_of(problem.grad_y.c) * kColumnsDepth * kGroupStride + kLanes),
        x_plane(panels_of(problem.x.c) * kColumnsDepth * kPanel + kLanes) {}
  int64_t floats() const { return kProducts * (grad_plane + x_plane); }
  int64_t grad_plane, x_plane;
};

void add_tiles(const Problem& problem, const Blocks& blocks, Range tiles, float* buffer, float* sums) {
  const winograd::Planes grads{buffer, blocks.grad_plane, kPanel, kColumnsDepth * kGroupStride, kGroupStride};
  const winograd::Planes inputs{buffer + kProducts * blocks.grad_plane, blocks.x_plane, kPanel, kColumnsDepth * kPanel,
                                kPanel};
  const int64_t k = problem.grad_y.c, c = problem.x.c;
  for (int64_t begin = tiles.begin; begin < tiles.end; begin += kColumnsDepth) {
    const Range chunk{begin, std::min(tiles.end, begin + kColumnsDepth)};
    winograd::transform_gradients(problem.grad_y, problem.tiling, chunk, grads);
    winograd::transform_inputs(problem.x, problem.tiling, problem.pad, chunk, inputs);
    for (int64_t product = 0; product < kProducts; ++product) {
      gemm_columns({.a = grads.data + product * grads.plane,
                    .a_stride = grads.block,
                    .b = inputs.data + product * inputs.plane,
                    .b_stride = inputs.block,
                    .rows = k,
                    .columns = c,
                    .depth = chunk.end - chunk.begin,
                    .c = sums + product * k * c,
                    .c_stride = c,
                    .accumulate = begin > tiles.begin});
    }
  }
}

// Adds the threads' sums in their order and transforms them into grad_weight [k, 3, 3, c].
void write_filters(const Problem& problem, const float* sums, int64_t parts, float* grad_weight) {
  const int64_t c = problem.x.c, count = problem.grad_y.c * c;
  parallel_for(count / kLanes, 16, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * kLanes; at < end * kLanes; at += kLanes) {
      Vector half[kPoints][3];
      for (int64_t i = 0; i < kPoints; ++i) {
        Vector points[kPoints] = {};
        for (int64_t part = 0; part < parts; ++part) {
          const float* from = sums + part * problem.sum_floats() + i * kPoints * count + at;
          for (int64_t j = 0; j < kPoints; ++j) points[j] += load(from + j * count);
        }
        winograd::points_to_filter(points, half[i], 1, 1);
      }
      float* to = grad_weight + at / c * 9 * c + at % c;
      for (int64_t v = 0; v < 3; ++v) {
        Vector taps[3];
        winograd::points_to_filter(&half[0][v], taps, 3, 1);
        for (int64_t u = 0; u < 3; ++u) store(to + (u * 3 + v) * c, taps[u]);
      }
    }
  });
}

}  // namespace

void conv2d_backward_weights_winograd(const float* x, const float* grad_y, float* grad_weight,
                                      const Conv2dShape& shape) {
  const Problem problem{.x = {x, shape.h, shape.w, shape.c},
                        .grad_y = {grad_y, shape.out_h(), shape.out_w(), shape.k},
                        .tiling = {shape.n, shape.out_h(), shape.out_w()},
                        .pad = shape.pad_h};
  const Blocks blocks(problem);
  const int64_t tiles = problem.tiling.count(), parts = std::min<int64_t>(max_threads(), tiles);
  Scratch scratch(Scratch::padded_floats(parts * problem.sum_floats()) +
                  Scratch::padded_floats(parts * blocks.floats()));
  float* sums = scratch.take_floats(parts * problem.sum_floats());
  float* buffers = scratch.take_floats(parts * blocks.floats());
  parallel_shares(tiles, parts, [&](int64_t part, Range range) {
    add_tiles(problem, blocks, range, buffers + part * blocks.floats(), sums + part * problem.sum_floats());
  });
  write_filters(problem, sums, parts, grad_weight);
}

}  // namespace engine::kernels
