#include "kernels/conv2d/conv2d_patches.h"

#include <algorithm>

#include "kernels/common/storage_vec.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

// Walks the rows of a grid.
struct Cursor {
  Cursor(int64_t row, int64_t height, int64_t width)
      : b(row / (height * width)), i(row / width % height), j(row % width), grid_h(height), grid_w(width) {}

  void advance() {
    if (++j < grid_w) return;
    j = 0;
    if (++i < grid_h) return;
    i = 0;
    ++b;
  }

  int64_t b, i, j;
  const int64_t grid_h, grid_w;
};

// Copies elements [begin, end) of a picture's row of `length` elements; begin may be negative and end beyond the row.
template <typename T>
void copy_clipped(const T* row, int64_t length, int64_t begin, int64_t end, float* to) {
  const int64_t from = std::clamp<int64_t>(begin, 0, std::max(length, int64_t{0}));
  const int64_t until = std::clamp<int64_t>(end, from, length);
  const int64_t left = std::min(from, end) - begin;
  if (left > 0) zero_floats(to, left);
  const int64_t inside = std::max<int64_t>(until - from, 0);
  if (begin < length && inside > 0) widen(row + from, to + left, inside);
  const int64_t done = std::max<int64_t>(left, 0) + inside;
  if (done < end - begin) zero_floats(to + done, end - begin - done);
}

template <typename T>
void copy_patch(const Patches<T>& p, const Cursor& at, Range depth, float* to) {
  const int64_t run = p.s * p.c;  // the pixels of one filter row are neighbours in memory
  const int64_t top = p.first_h + at.i * p.step_h, left = (p.first_w + at.j * p.step_w) * p.c;
  for (int64_t position = depth.begin; position < depth.end;) {
    const int64_t u = position / run, begin = position - u * run;
    const int64_t end = std::min(run, begin + depth.end - position);
    const int64_t y = top + u;
    if (y < 0 || y >= p.h) {
      zero_floats(to, end - begin);
    } else {
      copy_clipped(p.image + (at.b * p.h + y) * p.w * p.c, p.w * p.c, left + begin, left + end, to);
    }
    to += end - begin;
    position += end - begin;
  }
}

// The first `columns` columns of a panel are filters that lie `stride` elements apart.
template <typename T>
void pack_transposed(const T* from, int64_t stride, int64_t columns, int64_t depth, float* to) {
  const int64_t whole_columns = columns / kLanes * kLanes, whole_depth = depth / kLanes * kLanes;
  for (int64_t p = 0; p < whole_depth; p += kLanes) {
    for (int64_t column = 0; column < whole_columns; column += kLanes) {
      Vector block[kLanes];
      for (int i = 0; i < kLanes; ++i) block[i] = load(from + (column + i) * stride + p);
      transpose(block);
      for (int i = 0; i < kLanes; ++i) store(to + (p + i) * kPanel + column, block[i]);
    }
  }
  for (int64_t p = 0; p < depth; ++p) {
    float* row = to + p * kPanel;
    for (int64_t column = p < whole_depth ? whole_columns : 0; column < columns; ++column) {
      row[column] = static_cast<float>(from[column * stride + p]);
    }
    zero_floats(row + columns, kPanel - columns);
  }
}

template <typename T>
void pack_rows(const T* from, int64_t stride, int64_t columns, int64_t depth, float* to) {
  for (int64_t p = 0; p < depth; ++p) {
    widen(from + p * stride, to + p * kPanel, columns);
    zero_floats(to + p * kPanel + columns, kPanel - columns);
  }
}

}  // namespace

template <typename T>
Patches<T> patches_of(const T* x, const Conv2dShape& shape) {
  return {.image = x,
          .n = shape.n,
          .h = shape.h,
          .w = shape.w,
          .c = shape.c,
          .grid_h = shape.out_h(),
          .grid_w = shape.out_w(),
          .step_h = shape.stride_h,
          .step_w = shape.stride_w,
          .first_h = -shape.pad_h,
          .first_w = -shape.pad_w,
          .r = shape.r,
          .s = shape.s};
}

template <typename T>
void copy_patches(const Patches<T>& patches, Range rows, Range depth, float* to, int64_t stride) {
  Cursor at(rows.begin, patches.grid_h, patches.grid_w);
  for (int64_t row = rows.begin; row < rows.end; ++row, to += stride, at.advance()) {
    copy_patch(patches, at, depth, to);
  }
}

template <typename T>
void copy_patch_panels(const Patches<T>& patches, Range rows, Range depth, float* to, int64_t panel_stride,
                       int64_t width) {
  Cursor at(rows.begin, patches.grid_h, patches.grid_w);
  for (int64_t row = rows.begin; row < rows.end; ++row, to += width, at.advance()) {
    float* panel = to;
    for (int64_t begin = depth.begin; begin < depth.end; begin += width, panel += panel_stride) {
      copy_patch(patches, at, {begin, std::min(depth.end, begin + width)}, panel);
    }
  }
}

template <typename T>
void pixel_pointers(const PixelGrid<T>& grid, Range rows, T** pointers) {
  Cursor at(rows.begin, grid.grid_h, grid.grid_w);
  for (int64_t row = rows.begin; row < rows.end; ++row, at.advance()) {
    *pointers++ = grid.data + at.b * grid.image_stride + at.i * grid.row_stride + at.j * grid.column_stride;
  }
}

template <typename T>
void pack_filters(const T* weight, const Conv2dShape& shape, const Taps& taps, bool forward, float* panels) {
  const int64_t outputs = forward ? shape.k : shape.c, inputs = forward ? shape.c : shape.k;
  const int64_t filter = shape.r * shape.s * shape.c, tap_count = taps.r * taps.s, all = panels_of(outputs);
  parallel_for(all * tap_count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t panel = item / tap_count, tap = item % tap_count, first = panel * kPanel;
      const int64_t u = taps.first_u + tap / taps.s * taps.step_u, v = taps.first_v + tap % taps.s * taps.step_v;
      const T* from = weight + (u * shape.s + v) * shape.c;
      float* to = panels + (panel * tap_count + tap) * inputs * kPanel;
      const int64_t columns = std::min(kPanel, outputs - first);
      if (forward) {
        pack_transposed(from + first * filter, filter, columns, inputs, to);
      } else {
        pack_rows(from + first, filter, columns, inputs, to);
      }
    }
  });
}

int64_t packed_filter_floats(const Conv2dShape& shape, const Taps& taps, bool forward) {
  const int64_t outputs = forward ? shape.k : shape.c, inputs = forward ? shape.c : shape.k;
  return panels_of(outputs) * panel_floats(taps.r * taps.s * inputs);
}

template Patches<float> patches_of(const float*, const Conv2dShape&);
template Patches<Half> patches_of(const Half*, const Conv2dShape&);
template Patches<BFloat16> patches_of(const BFloat16*, const Conv2dShape&);
template void copy_patches(const Patches<float>&, Range, Range, float*, int64_t);
template void copy_patches(const Patches<Half>&, Range, Range, float*, int64_t);
template void copy_patches(const Patches<BFloat16>&, Range, Range, float*, int64_t);
template void copy_patch_panels(const Patches<float>&, Range, Range, float*, int64_t, int64_t);
template void copy_patch_panels(const Patches<Half>&, Range, Range, float*, int64_t, int64_t);
template void copy_patch_panels(const Patches<BFloat16>&, Range, Range, float*, int64_t, int64_t);
template void pixel_pointers(const PixelGrid<float>&, Range, float**);
template void pixel_pointers(const PixelGrid<Half>&, Range, Half**);
template void pixel_pointers(const PixelGrid<BFloat16>&, Range, BFloat16**);
template void pack_filters(const float*, const Conv2dShape&, const Taps&, bool, float*);
template void pack_filters(const Half*, const Conv2dShape&, const Taps&, bool, float*);
template void pack_filters(const BFloat16*, const Conv2dShape&, const Taps&, bool, float*);

}  // namespace engine::kernels
