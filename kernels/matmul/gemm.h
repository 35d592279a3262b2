#pragma once
// The project's own FP32 matrix product for one thread, from which its convolutions are built: register tiles of
// kTileRows x kPanel sums over operands that the caller has laid out for the cache. The scheme is that of Goto and van
// de Geijn, Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008), with rows of `a` copied but not
// transposed. Each sum runs over p in rising order, so a result does not depend on how rows and columns are shared out
// between threads.

#include <cstdint>

#include "kernels/common/vec.h"

namespace engine::kernels {

/// Columns of a panel of `b`: two vectors.
inline constexpr int64_t kPanel = 2 * kLanes;

/// Rows of the largest register tile: it takes all but four of the registers, less on processors with 16.
inline constexpr int64_t kTileRows = kLanes == 16 ? 14 : 6;

/// Distance of the rows of `a` in gemm_rows. A constant keeps the tile's rows at constant offsets from one pointer; an
/// odd number of cache lines keeps them in different sets of the cache.
inline constexpr int64_t kDepthBlock = 256;
inline constexpr int64_t kRowStride = kDepthBlock + 16;

/// Floats of one panel of `b` that is `depth` deep.
inline int64_t panel_floats(int64_t depth) { return depth * kPanel; }
inline int64_t panels_of(int64_t columns) { return (columns + kPanel - 1) / kPanel; }

struct RowsProduct {
  const float* a;        // element (i, p) at a[i * kRowStride + p]
  int64_t rows, depth;   // depth <= kDepthBlock; 0 gives sums of zero
  const float* b;        // panel q begins at b + q * b_stride and holds [depth][kPanel]
  int64_t b_stride;
  int64_t columns;       // a last panel may be partly used; its other columns are read and must be finite
  float* const* c;       // row i's first column; rows may not overlap
  bool accumulate;       // c += in place of c =
  const float* bias = nullptr;  // [columns], added where not null and not accumulating
};

/// c[i][j] = sum over p of a(i, p) * b(p, j).
void gemm_rows(const RowsProduct& product);

struct ColumnsProduct {
  const float* a;  // element (i, p) at a[p * a_stride + i]
  int64_t a_stride;
  const float* b;  // element (p, j) at b[p * b_stride + j]; kPanel * panels_of(columns) floats of a row are read
  int64_t b_stride;
  int64_t rows, columns, depth;
  float* c;  // element (i, j) at c[i * c_stride + j]
  int64_t c_stride;
  bool accumulate;
};

/// c(i, j) = sum over p of a(i, p) * b(p, j) where p walks rows in memory: the product of weight gradients.
void gemm_columns(const ColumnsProduct& product);

}  // namespace engine::kernels
