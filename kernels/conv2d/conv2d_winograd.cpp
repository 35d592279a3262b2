#include "kernels/conv2d/conv2d_winograd.h"

#include <algorithm>

#include "kernels/common/half.h"
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
template <typename T>
struct Problem {
  winograd::Picture<T> from;
  winograd::Tiling tiling;
  int64_t pad;
  winograd::OutputPicture<T> to;

  int64_t inputs() const { return from.c; }
  int64_t columns() const { return to.c; }
  int64_t panels() const { return panels_of(to.c); }
};

// Filters as packed for a direct convolution, [panel, tap, inputs, kPanel], and the distance of the planes that their
// transforms go to.
struct PackedFilters {
  const float* packed;
  int64_t inputs;
  int64_t plane;
};

// Inputs [depth.begin, depth.end) of one panel, to [product, input, kPanel].
void transform_filters(const PackedFilters& filters, int64_t panel, Range depth, float* to) {
  const int64_t tap = panel_floats(filters.inputs);
  for (int64_t input = depth.begin; input < depth.end; ++input, to += kPanel) {
    const float* from = filters.packed + panel * 9 * tap + input * kPanel;
    for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
      Vector half[kPoints][3];
      for (int64_t v = 0; v < 3; ++v) {
        const Vector column[3] = {load(from + v * tap + lane), load(from + (3 + v) * tap + lane),
                                  load(from + (6 + v) * tap + lane)};
        winograd::filter_to_points(column, &half[0][v], 1, 3);
      }
      for (int64_t i = 0; i < kPoints; ++i) {
        Vector points[kPoints];
        winograd::filter_to_points(half[i], points, 1, 1);
        for (int64_t j = 0; j < kPoints; ++j) store(to + (i * kPoints + j) * filters.plane + lane, points[j]);
      }
    }
  }
}

// Plan for small filters, which are transformed once: each thread takes blocks of tiles through all three stages. A
// block is as large as a second-level cache of 1.25 MB holds, but uses each transformed filter often enough.
constexpr int64_t kBlockBytes = 1 << 20;
constexpr int64_t kFewestTiles = 36, kMostTiles = 60;

struct TileBlocks {
  template <typename T>
  TileBlocks(const Problem<T>& problem, int64_t threads) {
    const int64_t bytes = kProducts * (problem.inputs() + problem.columns()) * static_cast<int64_t>(sizeof(float));
    const int64_t tiles = std::clamp(kBlockBytes / bytes, kFewestTiles, kMostTiles), all = problem.tiling.count();
    count = std::min(all, ((all + tiles - 1) / tiles + threads - 1) / threads * threads);
    size = (all + count - 1) / count;
    depths = (problem.inputs() + kDepthBlock - 1) / kDepthBlock;
    input_plane = depths * size * kRowStride + kLanes;
    product_row = problem.columns() + kLanes;
    product_plane = size * product_row;
  }
  // Of one thread.
  int64_t input_floats() const { return kProducts * input_plane; }
  int64_t floats() const { return input_floats() + kProducts * product_plane; }

  int64_t count, size, depths, input_plane, product_row, product_plane;
};

template <typename T>
void multiply_tiles(const Problem<T>& problem, const TileBlocks& blocks, Range tiles, const float* filters,
                    float* buffer) {
  const int64_t inputs = problem.inputs(), rows = tiles.end - tiles.begin;
  const int64_t filter_plane = problem.panels() * panel_floats(inputs);
  const winograd::Planes transformed{buffer, blocks.input_plane, kDepthBlock, blocks.size * kRowStride, kRowStride};
  const winograd::Planes products{buffer + blocks.input_floats(), blocks.product_plane, problem.columns(), 0,
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
                 .columns = problem.columns(),
                 .c = c,
                 .accumulate = d > 0});
    }
  }
  winograd::transform_outputs(products, problem.tiling, tiles, {0, problem.columns()}, problem.to);
}

template <typename T>
void convolve_by_tiles(const Problem<T>& problem, const T* weight, const Conv2dShape& shape, const Taps& taps,
                       bool forward) {
  const int64_t packed_floats = packed_filter_floats(shape, taps, forward), inputs = problem.inputs();
  const int64_t filter_floats = packed_floats / 9 * kProducts, threads = max_threads();
  const TileBlocks blocks(problem, threads);
  const int64_t parts = std::min(threads, blocks.count), block_floats = parts * blocks.floats();
  // The packed filters are dead once they are transformed; the blocks take their place.
  Scratch scratch(Scratch::padded_floats(filter_floats) +
                  Scratch::padded_floats(std::max(packed_floats, block_floats)));
  float* filters = scratch.take_floats(filter_floats);
  float* buffer = scratch.take_floats(std::max(packed_floats, block_floats));
  pack_filters(weight, shape, taps, forward, buffer);
  const PackedFilters all{buffer, inputs, problem.panels() * panel_floats(inputs)};
  parallel_for(problem.panels() * inputs, 16, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin, next; at < end; at = next) {
      next = std::min(end, (at / inputs + 1) * inputs);
      transform_filters(all, at / inputs, {at % inputs, at % inputs + next - at}, filters + at * kPanel);
    }
  });
  parallel_shares(blocks.count, parts, [&](int64_t part, Range items) {
    for (int64_t item = items.begin; item < items.end; ++item) {
      multiply_tiles(problem, blocks, share_of(problem.tiling.count(), item, blocks.count), filters,
                     buffer + part * blocks.floats());
    }
  });
}

// Plan for large filters, whose transforms (four times the filters) would go to memory and back: some tiles are
// transformed for all threads, then each thread takes panels of output channels, whose filters it transforms piece by
// piece in its cache.
constexpr int64_t kSharedTiles = 64, kPieceDepth = 64, kProductRow = kPanel + kLanes;
constexpr int64_t kPieceFloats = kProducts * kPieceDepth * kPanel;

struct SharedTiles {
  template <typename T>
  explicit SharedTiles(const Problem<T>& problem)
      : size(std::min(kSharedTiles, problem.tiling.count())),
        block(size * kRowStride),
        plane((problem.inputs() + kDepthBlock - 1) / kDepthBlock * block + kLanes),
        product_plane(size * kProductRow + kLanes) {}
  int64_t input_floats() const { return kProducts * plane; }
  int64_t thread_floats() const { return kPieceFloats + kProducts * product_plane; }

  int64_t size, block, plane, product_plane;
};

struct SharedBuffers {
  const float* transformed;
  float* buffer;  // the thread's own
};

// One panel of output channels for some of the shared tiles, whose transforms begin at `transformed`.
template <typename T>
void multiply_panel(const Problem<T>& problem, const SharedTiles& shared, const PackedFilters& filters, int64_t panel,
                    Range tiles, SharedBuffers at) {
  const float* transformed = at.transformed;
  float* buffer = at.buffer;
  const Range columns{panel * kPanel, std::min(problem.columns(), (panel + 1) * kPanel)};
  const winograd::Planes products{buffer + kPieceFloats, shared.product_plane, kPanel, 0, kProductRow};
  float* c[kSharedTiles];
  for (int64_t begin = 0; begin < problem.inputs(); begin += kPieceDepth) {
    const int64_t end = std::min(problem.inputs(), begin + kPieceDepth);
    transform_filters(filters, panel, {begin, end}, buffer);
    for (int64_t product = 0; product < kProducts; ++product) {
      for (int64_t t = 0; t < tiles.end - tiles.begin; ++t) {
        c[t] = products.data + product * products.plane + t * products.row;
      }
      gemm_rows({.a = transformed + product * shared.plane + begin / kDepthBlock * shared.block + begin % kDepthBlock,
                 .rows = tiles.end - tiles.begin,
                 .depth = end - begin,
                 .b = buffer + product * filters.plane,
                 .b_stride = 0,
                 .columns = columns.end - columns.begin,
                 .c = c,
                 .accumulate = begin > 0});
    }
  }
  winograd::transform_outputs(products, problem.tiling, tiles, columns, problem.to);
}

template <typename T>
void convolve_by_panels(const Problem<T>& problem, const T* weight, const Conv2dShape& shape, const Taps& taps,
                        bool forward) {
  const SharedTiles shared(problem);
  const int64_t packed_floats = packed_filter_floats(shape, taps, forward), threads = max_threads();
  Scratch scratch(Scratch::padded_floats(packed_floats) + Scratch::padded_floats(shared.input_floats()) +
                  Scratch::padded_floats(threads * shared.thread_floats()));
  float *packed = scratch.take_floats(packed_floats), *transformed = scratch.take_floats(shared.input_floats());
  float* buffers = scratch.take_floats(threads * shared.thread_floats());
  pack_filters(weight, shape, taps, forward, packed);
  const PackedFilters filters{packed, problem.inputs(), kPieceDepth * kPanel};
  for (int64_t first = 0; first < problem.tiling.count(); first += shared.size) {
    const int64_t count = std::min(shared.size, problem.tiling.count() - first);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      winograd::transform_inputs(
          problem.from, problem.tiling, problem.pad, {first + begin, first + end},
          {transformed + begin * kRowStride, shared.plane, kDepthBlock, shared.block, kRowStride});
    });
    const int64_t splits = std::min(count, (threads + problem.panels() - 1) / problem.panels());
    const int64_t items = problem.panels() * splits;
    parallel_shares(items, std::min(threads, items), [&](int64_t part, Range range) {
      for (int64_t item = range.begin; item < range.end; ++item) {
        const Range tiles = share_of(count, item % splits, splits);
        multiply_panel(problem, shared, filters, item / splits, {first + tiles.begin, first + tiles.end},
                       {transformed + tiles.begin * kRowStride, buffers + part * shared.thread_floats()});
      }
    });
  }
}

// Transformed filters beyond this are not worth their way to memory: a few times a second-level cache.
constexpr int64_t kFewFilterFloats = int64_t{2} << 20;

template <typename T>
void convolve(const Problem<T>& problem, const T* weight, const Conv2dShape& shape, bool forward) {
  const Taps taps = forward ? Taps{3, 3} : Taps{3, 3, 2, 2, -1, -1};
  const bool few = kProducts * shape.k * shape.c <= kFewFilterFloats;
  few ? convolve_by_tiles(problem, weight, shape, taps, forward)
      : convolve_by_panels(problem, weight, shape, taps, forward);
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

template <typename T>
void conv2d_forward_winograd(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape) {
  convolve<T>({.from = {x, shape.h, shape.w, shape.c},
               .tiling = {shape.n, shape.out_h(), shape.out_w()},
               .pad = shape.pad_h,
               .to = {y, shape.k, bias}},
              weight, shape, true);
}

template <typename T>
void conv2d_backward_data_winograd(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape) {
  convolve<T>({.from = {grad_y, shape.out_h(), shape.out_w(), shape.k},
               .tiling = {shape.n, shape.h, shape.w},
               .pad = 2 - shape.pad_h,
               .to = {grad_x, shape.c, nullptr}},
              weight, shape, false);
}

template void conv2d_forward_winograd(const float*, const float*, const float*, float*, const Conv2dShape&);
template void conv2d_forward_winograd(const Half*, const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_forward_winograd(const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template void conv2d_backward_data_winograd(const float*, const float*, float*, const Conv2dShape&);
template void conv2d_backward_data_winograd(const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_backward_data_winograd(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);

}  // namespace engine::kernels
