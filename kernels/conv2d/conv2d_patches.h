#pragma once
// What the project's own convolutions share: pictures as rows of patches, and filters as panels of a product.

#include <cstdint>

#include "kernels/common/parallel.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {

/// NHWC pictures seen as a matrix that is never stored ("implicit im2col"). Row (b, i, j), i < grid_h and j < grid_w,
/// is the patch of r x s pixels whose first pixel is (first_h + i * step_h, first_w + j * step_w) of picture b, in the
/// order [r, s, c]; pixels outside of the picture are zero. r or s may be zero: the rows are empty then. T, here and
/// below: float, Half or BFloat16; copies and packed filters are floats.
template <typename T>
struct Patches {
  const T* image;
  int64_t n, h, w, c;
  int64_t grid_h, grid_w;
  int64_t step_h, step_w;
  int64_t first_h, first_w;
  int64_t r, s;

  int64_t rows() const { return n * grid_h * grid_w; }
  int64_t depth() const { return r * s * c; }
  /// Whether the matrix is the pictures' memory: row i at image + i * depth().
  bool dense() const {
    return r == 1 && s == 1 && step_h == 1 && step_w == 1 && first_h == 0 && first_w == 0 && grid_h == h && grid_w == w;
  }
};

/// `count` elements that a product fetches ahead.
template <typename T>
Ahead ahead_of(const T* data, int64_t count) {
  return {reinterpret_cast<const float*>(data), count * int64_t{sizeof(T)} / int64_t{sizeof(float)}};
}

/// The patches that a convolution without dilation and groups reads.
template <typename T>
Patches<T> patches_of(const T* x, const Conv2dShape& shape);

/// Copies columns [depth.begin, depth.end) of some rows to `to`, whose rows are `stride` floats apart.
template <typename T>
void copy_patches(const Patches<T>& patches, Range rows, Range depth, float* to, int64_t stride);

/// The same in panels of `width` columns: column j of row i goes to to[j / width * panel_stride + i * width + j %
/// width], with i and j counted from the first.
template <typename T>
void copy_patch_panels(const Patches<T>& patches, Range rows, Range depth, float* to, int64_t panel_stride,
                       int64_t width);

/// A grid of pixels in a picture: pixel (b, i, j) at data + b * image_stride + i * row_stride + j * column_stride.
template <typename T>
struct PixelGrid {
  T* data;
  int64_t image_stride, row_stride, column_stride;
  int64_t grid_h, grid_w;
};

/// Pointers to the pixels of rows [rows.begin, rows.end), numbered as in Patches.
template <typename T>
void pixel_pointers(const PixelGrid<T>& grid, Range rows, T** pointers);

/// Some taps of a filter in the order in which a product walks them: (first_u + i * step_u, first_v + j * step_v) for
/// i < r and j < s.
struct Taps {
  int64_t r, s;
  int64_t first_u = 0, first_v = 0;
  int64_t step_u = 1, step_v = 1;
};

/// Lays KRSC filters out for gemm_rows. forward: panels of output channels, [taps, c] deep. Else panels of input
/// channels, [taps, k] deep. Columns beyond the channels become zero. In parallel.
template <typename T>
void pack_filters(const T* weight, const Conv2dShape& shape, const Taps& taps, bool forward, float* panels);

/// Floats that pack_filters writes.
int64_t packed_filter_floats(const Conv2dShape& shape, const Taps& taps, bool forward);

}  // namespace engine::kernels
