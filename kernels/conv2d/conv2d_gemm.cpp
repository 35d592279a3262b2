#include "kernels/conv2d/conv2d_gemm.h"

#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/shares.h"
#include "kernels/conv2d/conv2d_patches.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

// Rows of patches that a thread holds at once: a seventh of a second-level cache of 1.25 MB, so that results and panels
// find room beside it.
constexpr int64_t kBlockRows = 28 * kTileRows;

struct PatchProduct {
  Patches patches;
  const float* filters;  // panels, as deep as the patches
  int64_t columns;
  const float* bias;
  PixelGrid to;
};

struct Split {
  int64_t row_blocks, column_blocks;
  int64_t items() const { return row_blocks * column_blocks; }
};

// Columns are shared out only where the rows do not suffice for all threads.
Split split_of(int64_t rows, int64_t columns, int64_t threads) {
  int64_t row_blocks = (rows + kBlockRows - 1) / kBlockRows;
  row_blocks = std::min((row_blocks + threads - 1) / threads * threads, (rows + kTileRows - 1) / kTileRows);
  const int64_t column_blocks = std::min(panels_of(columns), (threads + row_blocks - 1) / row_blocks);
  return {row_blocks, column_blocks};
}

void multiply_block(const PatchProduct& product, Range rows, Range panels, float* block) {
  const int64_t depth = product.patches.depth(), first = panels.begin * kPanel;
  float* c[kBlockRows];
  pixel_pointers(product.to, rows, c);
  for (int64_t i = 0; i < rows.end - rows.begin; ++i) c[i] += first;
  const Patches& patches = product.patches;
  // Where patches are whole rows of memory, those of the next block follow this one's.
  const int64_t chunks = std::max<int64_t>((depth + kDepthBlock - 1) / kDepthBlock, 1);
  const int64_t ahead = patches.dense() ? (rows.end - rows.begin) * depth / chunks : 0;
  int64_t begin = 0;
  do {
    const int64_t end = std::min(depth, begin + kDepthBlock);
    copy_patches(product.patches, rows, {begin, end}, block, kRowStride);
    gemm_rows({.a = block,
               .rows = rows.end - rows.begin,
               .depth = end - begin,
               .b = product.filters + panels.begin * panel_floats(depth) + begin * kPanel,
               .b_stride = panel_floats(depth),
               .columns = std::min(product.columns, panels.end * kPanel) - first,
               .c = c,
               .accumulate = begin > 0,
               .bias = product.bias == nullptr ? nullptr : product.bias + first,
               .ahead = {patches.image + rows.end * depth + begin / kDepthBlock * ahead, ahead}});
    begin = end;
  } while (begin < depth);
}

// `blocks` has kBlockRows * kRowStride floats for each thread.
void multiply_patches(const PatchProduct& product, float* blocks) {
  const int64_t rows = product.patches.rows(), threads = max_threads();
  if (rows == 0) return;
  const Split split = split_of(rows, product.columns, threads);
  parallel_shares(split.items(), std::min(threads, split.items()), [&](int64_t part, Range items) {
    for (int64_t item = items.begin; item < items.end; ++item) {
      multiply_block(product, share_of(rows, item / split.column_blocks, split.row_blocks),
                     share_of(panels_of(product.columns), item % split.column_blocks, split.column_blocks),
                     blocks + part * kBlockRows * kRowStride);
    }
  });
}

int64_t block_floats() { return max_threads() * kBlockRows * kRowStride; }

// One dimension of a phase of backward-data: result pixels first, first + stride, ... below `extent`, to which the taps
// first_tap, first_tap - stride, ... contribute, the first of them from grad_y's pixel `source`.
struct Phase {
  Phase(int64_t phase, int64_t stride, int64_t pad, int64_t filter, int64_t extent) {
    first = ((phase - pad) % stride + stride) % stride;
    count = first < extent ? (extent - first + stride - 1) / stride : 0;
    taps = phase < filter ? (filter - phase + stride - 1) / stride : 0;
    first_tap = phase + stride * (taps - 1);
    source = (first + pad - phase) / stride - (taps - 1);
  }
  int64_t first, count, taps, first_tap, source;
};

}  // namespace

bool conv2d_gemm_takes(const Conv2dShape& shape) {
  return shape.groups == 1 && shape.dilation_h == 1 && shape.dilation_w == 1;
}

void conv2d_forward_gemm(const float* x, const float* weight, const float* bias, float* y, const Conv2dShape& shape) {
  const Taps taps{.r = shape.r, .s = shape.s};
  const int64_t filters = packed_filter_floats(shape, taps, true);
  Scratch scratch(Scratch::padded_floats(filters) + Scratch::padded_floats(block_floats()));
  float* panels = scratch.take_floats(filters);
  pack_filters(weight, shape, taps, true, panels);
  const int64_t row = shape.out_w() * shape.k;
  multiply_patches({.patches = patches_of(x, shape),
                    .filters = panels,
                    .columns = shape.k,
                    .bias = bias,
                    .to = {y, shape.out_h() * row, row, shape.k, shape.out_h(), shape.out_w()}},
                   scratch.take_floats(block_floats()));
}

void conv2d_backward_data_gemm(const float* grad_y, const float* weight, float* grad_x, const Conv2dShape& shape) {
  const int64_t filters = packed_filter_floats(shape, {.r = shape.r, .s = shape.s}, false);
  Scratch scratch(Scratch::padded_floats(filters) + Scratch::padded_floats(block_floats()));
  float *panels = scratch.take_floats(filters), *blocks = scratch.take_floats(block_floats());
  const int64_t row = shape.w * shape.c;
  for (int64_t i = 0; i < shape.stride_h; ++i) {
    const Phase high(i, shape.stride_h, shape.pad_h, shape.r, shape.h);
    for (int64_t j = 0; j < shape.stride_w; ++j) {
      const Phase wide(j, shape.stride_w, shape.pad_w, shape.s, shape.w);
      const Taps taps{high.taps, wide.taps, high.first_tap, wide.first_tap, -shape.stride_h, -shape.stride_w};
      pack_filters(weight, shape, taps, false, panels);
      const Patches patches{.image = grad_y,
                            .n = shape.n,
                            .h = shape.out_h(),
                            .w = shape.out_w(),
                            .c = shape.k,
                            .grid_h = high.count,
                            .grid_w = wide.count,
                            .step_h = 1,
                            .step_w = 1,
                            .first_h = high.source,
                            .first_w = wide.source,
                            .r = taps.r,
                            .s = taps.s};
      multiply_patches({.patches = patches,
                        .filters = panels,
                        .columns = shape.c,
                        .bias = nullptr,
                        .to = {grad_x + high.first * row + wide.first * shape.c, shape.h * row, shape.stride_h * row,
                               shape.stride_w * shape.c, high.count, wide.count}},
                       blocks);
    }
  }
}

}  // namespace engine::kernels
