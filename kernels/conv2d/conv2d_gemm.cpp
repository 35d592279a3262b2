#include "kernels/conv2d/conv2d_gemm.h"

#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/shares.h"
#include "kernels/common/storage_vec.h"
#include "kernels/conv2d/conv2d_patches.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

// Rows of patches that a thread holds at once: a seventh of a second-level cache of 1.25 MB, so that results and panels
// find room beside it.
constexpr int64_t kBlockRows = 28 * kTileRows;

// Columns of the results that wait in floats to be rounded, and the distance of their rows: beside the patches they
// fill half of that cache.
constexpr int64_t kResultPanels = 512 / kPanel;
constexpr int64_t kResultStride = kResultPanels * kPanel + 16;

template <typename T>
struct PatchProduct {
  Patches<T> patches;
  const float* filters;  // panels, as deep as the patches
  int64_t columns;
  const T* bias;
  PixelGrid<T> to;
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

// Beside a product of floats; 16-bit results get theirs when they are rounded.
template <typename T>
const float* bias_of(const PatchProduct<T>& product, int64_t first) {
  if constexpr (kNarrow<T>) {
    return nullptr;
  } else {
    return product.bias == nullptr ? nullptr : product.bias + first;
  }
}

template <typename T>
void round_row(const float* sums, const T* bias, int64_t first, int64_t columns, T* to) {
  if (bias == nullptr) return narrow(sums, to, columns);
  for_each_vector(
      columns, [=]<typename V>(int64_t i) { store_as(to + i, load_as<V>(sums + i) + load_as<V>(bias + first + i)); });
}

// c: the first columns of the rows of the result.
template <typename T>
void multiply_panels(const PatchProduct<T>& product, Range rows, Range panels, float* block, float* const* c) {
  const int64_t depth = product.patches.depth(), first = panels.begin * kPanel;
  const Patches<T>& patches = product.patches;
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
               .bias = bias_of(product, first),
               .ahead = ahead_of(patches.image + rows.end * depth + begin / kDepthBlock * ahead, ahead)});
    begin = end;
  } while (begin < depth);
}

// `block` has kBlockRows * kRowStride floats, and kBlockRows * kResultStride more for 16-bit results.
template <typename T>
void multiply_block(const PatchProduct<T>& product, Range rows, Range panels, float* block) {
  T* to[kBlockRows];
  float* c[kBlockRows];
  pixel_pointers(product.to, rows, to);
  const int64_t count = rows.end - rows.begin;
  if constexpr (kNarrow<T>) {
    float* results = block + kBlockRows * kRowStride;
    for (int64_t i = 0; i < count; ++i) c[i] = results + i * kResultStride;
    for (int64_t panel = panels.begin; panel < panels.end; panel += kResultPanels) {
      const Range group{panel, std::min(panels.end, panel + kResultPanels)};
      multiply_panels(product, rows, group, block, c);
      const int64_t first = panel * kPanel, columns = std::min(product.columns, group.end * kPanel) - first;
      for (int64_t i = 0; i < count; ++i) round_row(c[i], product.bias, first, columns, to[i] + first);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) c[i] = to[i] + panels.begin * kPanel;
    multiply_panels(product, rows, panels, block, c);
  }
}

template <typename T>
constexpr int64_t kBlockFloats = kBlockRows*(kRowStride + (kNarrow<T> ? kResultStride : 0));

// `blocks` has kBlockFloats<T> for each thread.
template <typename T>
void multiply_patches(const PatchProduct<T>& product, float* blocks) {
  const int64_t rows = product.patches.rows(), threads = max_threads();
  if (rows == 0) return;
  const Split split = split_of(rows, product.columns, threads);
  parallel_shares(split.items(), std::min(threads, split.items()), [&](int64_t part, Range items) {
    for (int64_t item = items.begin; item < items.end; ++item) {
      multiply_block(product, share_of(rows, item / split.column_blocks, split.row_blocks),
                     share_of(panels_of(product.columns), item % split.column_blocks, split.column_blocks),
                     blocks + part * kBlockFloats<T>);
    }
  });
}

template <typename T>
int64_t block_floats() {
  return max_threads() * kBlockFloats<T>;
}

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

template <typename T>
void conv2d_forward_gemm(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape) {
  const Taps taps{.r = shape.r, .s = shape.s};
  const int64_t filters = packed_filter_floats(shape, taps, true);
  Scratch scratch(Scratch::padded_floats(filters) + Scratch::padded_floats(block_floats<T>()));
  float* panels = scratch.take_floats(filters);
  pack_filters(weight, shape, taps, true, panels);
  const int64_t row = shape.out_w() * shape.k;
  multiply_patches<T>({.patches = patches_of(x, shape),
                       .filters = panels,
                       .columns = shape.k,
                       .bias = bias,
                       .to = {y, shape.out_h() * row, row, shape.k, shape.out_h(), shape.out_w()}},
                      scratch.take_floats(block_floats<T>()));
}

template <typename T>
void conv2d_backward_data_gemm(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape) {
  const int64_t filters = packed_filter_floats(shape, {.r = shape.r, .s = shape.s}, false);
  Scratch scratch(Scratch::padded_floats(filters) + Scratch::padded_floats(block_floats<T>()));
  float *panels = scratch.take_floats(filters), *blocks = scratch.take_floats(block_floats<T>());
  const int64_t row = shape.w * shape.c;
  for (int64_t i = 0; i < shape.stride_h; ++i) {
    const Phase high(i, shape.stride_h, shape.pad_h, shape.r, shape.h);
    for (int64_t j = 0; j < shape.stride_w; ++j) {
      const Phase wide(j, shape.stride_w, shape.pad_w, shape.s, shape.w);
      const Taps taps{high.taps, wide.taps, high.first_tap, wide.first_tap, -shape.stride_h, -shape.stride_w};
      pack_filters(weight, shape, taps, false, panels);
      const Patches<T> patches{.image = grad_y,
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
      multiply_patches<T>({.patches = patches,
                           .filters = panels,
                           .columns = shape.c,
                           .bias = nullptr,
                           .to = {grad_x + high.first * row + wide.first * shape.c, shape.h * row, shape.stride_h * row,
                                  shape.stride_w * shape.c, high.count, wide.count}},
                          blocks);
    }
  }
}

template void conv2d_forward_gemm(const float*, const float*, const float*, float*, const Conv2dShape&);
template void conv2d_forward_gemm(const Half*, const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_forward_gemm(const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template void conv2d_backward_data_gemm(const float*, const float*, float*, const Conv2dShape&);
template void conv2d_backward_data_gemm(const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_backward_data_gemm(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);

}  // namespace engine::kernels
