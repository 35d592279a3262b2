#pragma once
// The project's own FP32 matrix product for one thread, from which its convolutions are built: register tiles of
// kTileRows x kPanel sums over operands that the caller has laid out for the cache. The scheme is that of Goto and van
// de Geijn, Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008), with rows of `a` copied but not
// transposed. Each sum runs over p in rising order, so a result does not depend on how rows and columns are shared out
// between threads.

#include <cstdint>

#include "kernels/common/vec.h"

namespace engine::kernels {

/// Vectors and rows of the largest register tile: 24 sums, four vectors and a factor fill the 32 registers of AVX-512,
/// 12 sums those of AVX2. Wider than high, because a row's factor is loaded once for all vectors and loads, not
/// multiplications, are what slower tiles (14 x 2: 156 of 185 GFLOP/s, 6 x 4: 166) are short of.
inline constexpr int64_t kTileVectors = kLanes == 16 ? 4 : 2;
inline constexpr int64_t kTileRows = 6;

/// Columns of a panel of `b`.
inline constexpr int64_t kPanel = kTileVectors * kLanes;

/// Distance of the rows of `a` in gemm_rows. A constant keeps the tile's rows at constant offsets from one pointer; an
/// odd number of cache lines keeps them in different sets of the cache.
inline constexpr int64_t kDepthBlock = 256;
inline constexpr int64_t kRowStride = kDepthBlock + 16;

/// Distance of the rows of `a` in gemm_columns, which come in groups of kPanel columns, and how deep a product is best
/// there: a panel of `b` fills two thirds of a first-level cache of 48 KB.
inline constexpr int64_t kGroupStride = kPanel + 16;
inline constexpr int64_t kColumnsDepth = 128;

/// Floats of one panel of `b` that is `depth` deep.
inline int64_t panel_floats(int64_t depth) { return depth * kPanel; }
inline int64_t panels_of(int64_t columns) { return (columns + kPanel - 1) / kPanel; }

/// Memory that the caller reads next, brought into the second-level cache during a product. It need not be valid.
struct Ahead {
  const float* data = nullptr;
  int64_t floats = 0;
};

struct RowsProduct {
  const float* a;       // element (i, p) at a[i * kRowStride + p]
  int64_t rows, depth;  // depth <= kDepthBlock; 0 gives sums of zero
  const float* b;       // panel q begins at b + q * b_stride and holds [depth][kPanel]
  int64_t b_stride;
  int64_t columns;              // a last panel may be partly used; its other columns are read and must be finite
  float* const* c;              // row i's first column; rows may not overlap
  bool accumulate;              // c += in place of c =
  const float* bias = nullptr;  // [columns], added where not null and not accumulating
  Ahead ahead = {};
};

/// c[i][j] = sum over p of a(i, p) * b(p, j).
void gemm_rows(const RowsProduct& product);

struct ColumnsProduct {
  const float* a;    // element (i, p) at a[i / kPanel * a_stride + p * kGroupStride + i % kPanel]
  int64_t a_stride;  // floats of a group
  const float* b;    // panels as in gemm_rows
  int64_t b_stride;
  int64_t rows, columns, depth;
  float* c;  // element (i, j) at c[i * c_stride + j]
  int64_t c_stride;
  bool accumulate;
  Ahead ahead[2] = {};
};

/// c(i, j) = sum over p of a(i, p) * b(p, j) where p walks rows in memory: the product of weight gradients. Copying the
/// operands into narrow groups and panels pays: products of rows that lie kilobytes apart run at 131 in place of 158
/// GFLOP/s.
void gemm_columns(const ColumnsProduct& product);

}  // namespace engine::kernels
