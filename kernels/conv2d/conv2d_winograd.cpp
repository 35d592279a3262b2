#include "kernels/conv2d/conv2d_winograd.h"

#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/shares.h"
#include "kernels/conv2d/conv2d_patches.h"
#include "kernels/conv2d/winograd_tiles.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

using winograd::kPoints;
using winograd::kProducts;

// Forward and backward-data as one problem: backward-data is a convolution of grad_y with turned filters.
struct Problem {
  winograd::Picture from;
  winograd::Tiling tiling;
  int64_t pad, columns;
  const float* bias;
  float* to;
};

// Transformed tiles and products of a block that one thread holds: as many tiles as fit into a second-level cache of
// 1.25 MB, but enough to use each transformed filter often.
constexpr int64_t kBlockBytes = 1 << 20;
constexpr int64_t kFewestTiles = 36, kMostTiles = 60;

struct Blocks {
  Blocks(const Problem& problem, int64_t threads) {
    const int64_t bytes = kProducts * (problem.from.c + problem.columns) * static_cast<int64_t>(sizeof(float));
    const int64_t tiles = std::clamp(kBlockBytes / bytes, kFewestTiles, kMostTiles), all = problem.tiling.count();
    count = std::min(all, ((all + tiles - 1) / tiles + threads - 1) / threads * threads);
    size = (all + count - 1) / count;
    depths = (problem.from.c + kDepthBlock - 1) / kDepthBlock;
    input_plane = depths * size * kRowStride + kLanes;
    product_row = problem.columns + kLanes;
    product_plane = size * product_row;
  }
  // Of one thread.
  int64_t input_floats() const { return kProducts * input_plane; }
  int64_t floats() const { return input_floats() + kProducts * product_plane; }

  int64_t count, size, depths, input_plane, product_row, product_plane;
};

// From [panel, tap, inputs, kPanel] to [product, panel, inputs, kPanel].
void transform_filters(const float* packed, int64_t panels, int64_t inputs, float* to) {
  const int64_t depth = inputs * kPanel, plane = panels * depth;
  parallel_for(panels * inputs, 16, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const float* from = packed + item / inputs * 9 * depth + item % inputs * kPanel;
      for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
        Vector half[kPoints][3];
        for (int64_t v = 0; v < 3; ++v) {
          const Vector column[3] = {load(from + v * depth + lane), load(from + (3 + v) * depth + lane),
                                    load(from + (6 + v) * depth + lane)};
          winograd::filter_to_points(column, &half[0][v], 1, 3);
        }
        for (int64_t i = 0; i < kPoints; ++i) {
          Vector points[kPoints];
          winograd::filter_to_points(half[i], points, 1, 1);
          for (int64_t j = 0; j < kPoints; ++j) store(to + (i * kPoints + j) * plane + item * kPanel + lane, points[j]);
        }
      }
    }
  });
}

void multiply_block(const Problem& problem, const Blocks& blocks, Range tiles, const float* filters, float* buffer) {
  const int64_t inputs = problem.from.c, rows = tiles.end - tiles.begin;
  const int64_t filter_plane = panels_of(problem.columns) * panel_floats(inputs);
  const winograd::Planes transformed{buffer, blocks.input_plane, kDepthBlock, blocks.size * kRowStride, kRowStride};
  const winograd::Planes products{buffer + blocks.input_floats(), blocks.product_plane, problem.columns, 0,
                                  blocks.product_row};
  winograd::transform_inputs(problem.from, problem.tiling, problem.pad, tiles, transformed);
  float* c[kMostTiles];
  for (int64_t product = 0; product < kProducts; ++product) {
    for (int64_t t = 0; t < rows; ++t) c[t] = products.data + product * products.plane + t * products.row;
    for (int64_t d = 0; d < blocks.depths; ++d) {
      gemm_rows({.a = transformed.data + product * transformed.plane + d * transformed.block,
                 .rows = rows,
                 .depth = std::min(kDepthBlock, inputs - d * kDepthBlock),
                 .b = filters + product * filter_plane + d * panel_floats(kDepthBlock),
                 .b_stride = panel_floats(inputs),
                 .columns = problem.columns,
                 .c = c,
                 .accumulate = d > 0});
    }
  }
  winograd::transform_outputs(products, problem.tiling, tiles, problem.columns, problem.bias, problem.to);
}

void convolve(const Problem& problem, const float* weight, const Conv2dShape& shape, bool forward) {
  const Taps taps = forward ? Taps{3, 3} : Taps{3, 3, 2, 2, -1, -1};
  const int64_t packed_floats = packed_filter_floats(shape, taps, forward), inputs = problem.from.c;
  const int64_t filter_floats = packed_floats / 9 * kProducts, threads = max_threads();
  const Blocks blocks(problem, threads);
  const int64_t parts = std::min(threads, blocks.count), block_floats = parts * blocks.floats();
  // The packed filters are dead once they are transformed; the blocks take their place.
  Scratch scratch(Scratch::padded_floats(filter_floats) +
                  Scratch::padded_floats(std::max(packed_floats, block_floats)));
  float *filters = scratch.take_floats(filter_floats);
  float *buffer = scratch.take_floats(std::max(packed_floats, block_floats));
  pack_filters(weight, shape, taps, forward, buffer);
  transform_filters(buffer, panels_of(problem.columns), inputs, filters);
  parallel_shares(blocks.count, parts, [&](int64_t part, Range items) {
    for (int64_t item = items.begin; item < items.end; ++item) {
      multiply_block(problem, blocks, share_of(problem.tiling.count(), item, blocks.count), filters,
                     buffer + part * blocks.floats());
    }
  });
}

}  // namespace

bool conv2d_winograd_takes(const Conv2dShape& shape) {
  return shape.r == 3 && shape.s == 3 && shape.stride_h == 1 && shape.stride_w == 1 && shape.dilation_h == 1 &&
         shape.dilation_w == 1 && shape.groups == 1 && shape.pad_h == shape.pad_w && shape.pad_h <= 2 &&
         shape.c % kLanes == 0 && shape.k % kLanes == 0;
}

int64_t conv2d_winograd_tiles(const Conv2dShape& shape) {
  return winograd::Tiling{shape.n, shape.out_h(), shape.out_w()}.count();
}

void conv2d_forward_winograd(const float* x, const float* weight, const float* bias, float* y,
                             const Conv2dShape& shape) {
  convolve({.from = {x, shape.h, shape.w, shape.c},
            .tiling = {shape.n, shape.out_h(), shape.out_w()},
            .pad = shape.pad_h,
            .columns = shape.k,
            .bias = bias,
            .to = y},
           weight, shape, true);
}

void conv2d_backward_data_winograd(const float* grad_y, const float* weight, float* grad_x, const Conv2dShape& shape) {
  convolve({.from = {grad_y, shape.out_h(), shape.out_w(), shape.k},
            .tiling = {shape.n, shape.h, shape.w},
            .pad = 2 - shape.pad_h,
            .columns = shape.c,
            .bias = nullptr,
            .to = grad_x},
           weight, shape, false);
}

}  // namespace engine::kernels
