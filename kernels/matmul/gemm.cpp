#include "kernels/matmul/gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/common/parallel.h"

namespace engine::kernels {
namespace {

struct Tile {
  const float* a;
  int64_t a_step;
  const float* b;
  int64_t b_step;
  int64_t depth;
  float* const* c;
  int64_t columns;  // at most the tile's vectors hold
  bool accumulate;
  const float* bias;
};

using TileKernel = void (*)(const Tile& tile);

// A(i, p) at a[i * kRow + p * a_step]. The arrays are unrolled into registers.
template <int kRows, int kVectors, int64_t kRow>
void multiply_tile(const Tile& tile) {
  Vector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] = tile.accumulate ? load(tile.c[i] + j * kLanes)
                                   : (tile.bias != nullptr ? load(tile.bias + j * kLanes) : Vector{});
      if (!tile.accumulate) __builtin_prefetch(tile.c[i] + j * kLanes, 1);
    }
  }
  const float *a = tile.a, *b = tile.b;
  const int64_t a_step = tile.a_step, b_step = tile.b_step;
  for (int64_t p = 0; p < tile.depth; ++p) {
    Vector row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) row[j] = load(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vector factor = splat(a[i * kRow]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] += factor * row[j];
    }
    a += a_step;
    b += b_step;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) store(tile.c[i] + j * kLanes, sums[i][j]);
  }
}

template <int kVectors, int64_t kRow, size_t... kIndices>
constexpr std::array<TileKernel, sizeof...(kIndices)> kernels_of(std::index_sequence<kIndices...>) {
  return {multiply_tile<static_cast<int>(kIndices) + 1, kVectors, kRow>...};
}

// Kernel of i + 1 rows at place i.
template <int kVectors, int64_t kRow>
constexpr auto kKernels = kernels_of<kVectors, kRow>(std::make_index_sequence<kTileRows>());

template <int64_t kRow>
void full_tile(const Tile& tile, int64_t rows) {
  const auto index = static_cast<size_t>(rows - 1);
  switch ((tile.columns + kLanes - 1) / kLanes) {
    case 1:
      return kKernels<1, kRow>[index](tile);
    case 2:
      return kKernels<2, kRow>[index](tile);
    case 3:
      return kKernels<3, kRow>[index](tile);
    default:
      return kKernels<kTileVectors, kRow>[index](tile);
  }
}

// Runs a tile whose columns do not fill its vectors through a buffer, so that nothing right of them is touched.
template <int64_t kRow>
void partial_tile(const Tile& tile, int64_t rows) {
  alignas(64) float buffer[kTileRows][kPanel] = {};
  alignas(64) float bias[kPanel] = {};
  float* c[kTileRows];
  for (int64_t i = 0; i < rows; ++i) {
    c[i] = buffer[i];
    if (tile.accumulate) std::copy_n(tile.c[i], tile.columns, buffer[i]);
  }
  Tile padded = tile;
  padded.c = c;
  if (tile.bias != nullptr) {
    std::copy_n(tile.bias, tile.columns, bias);
    padded.bias = bias;
  }
  full_tile<kRow>(padded, rows);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(buffer[i], tile.columns, tile.c[i]);
}

template <int64_t kRow>
void run_tile(const Tile& tile, int64_t rows) {
  return tile.columns % kLanes == 0 ? full_tile<kRow>(tile, rows) : partial_tile<kRow>(tile, rows);
}

int64_t tiles_of(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

}  // namespace

void gemm_rows(const RowsProduct& product) {
  const int64_t tiles = tiles_of(product.rows), panels = panels_of(product.columns);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t column = panel * kPanel;
    for (int64_t t = 0; t < tiles; ++t) {
      const Range rows = share_of(product.rows, t, tiles);
      float* c[kTileRows];
      for (int64_t i = rows.begin; i < rows.end; ++i) c[i - rows.begin] = product.c[i] + column;
      run_tile<kRowStride>({.a = product.a + rows.begin * kRowStride,
                            .a_step = 1,
                            .b = product.b + panel * product.b_stride,
                            .b_step = kPanel,
                            .depth = product.depth,
                            .c = c,
                            .columns = std::min(kPanel, product.columns - column),
                            .accumulate = product.accumulate,
                            .bias = product.bias == nullptr ? nullptr : product.bias + column},
                           rows.end - rows.begin);
    }
  }
}

void gemm_columns(const ColumnsProduct& product) {
  for (int64_t column = 0; column < product.columns; column += kPanel) {
    for (int64_t group = 0; group < product.rows; group += kPanel) {
      const int64_t group_rows = std::min(kPanel, product.rows - group), tiles = tiles_of(group_rows);
      for (int64_t t = 0; t < tiles; ++t) {
        const Range rows = share_of(group_rows, t, tiles);
        float* c[kTileRows];
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          c[i - rows.begin] = product.c + (group + i) * product.c_stride + column;
        }
        run_tile<1>({.a = product.a + group / kPanel * product.a_stride + rows.begin,
                     .a_step = kGroupStride,
                     .b = product.b + column / kPanel * product.b_stride,
                     .b_step = kPanel,
                     .depth = product.depth,
                     .c = c,
                     .columns = std::min(kPanel, product.columns - column),
                     .accumulate = product.accumulate,
                     .bias = nullptr},
                    rows.end - rows.begin);
      }
    }
  }
}

}  // namespace engine::kernels
