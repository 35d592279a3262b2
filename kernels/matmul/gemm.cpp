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
  const float* bias = nullptr;
  const char* ahead = nullptr;  // prefetched once a step; advances by ahead_step bytes
  int64_t ahead_step = 0;
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
  const int64_t a_step = tile.a_step, b_step = tile.b_step, ahead_step = tile.ahead_step;
  const char* ahead = tile.ahead;
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
    __builtin_prefetch(ahead, 0, 2);
    ahead += ahead_step;
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

// Deals the lines of some memory out to the tiles of a product, which prefetch one a step.
class Prefetch {
 public:
  Prefetch(const Ahead& first, const Ahead& second, int64_t tiles, int64_t depth)
      : first_(first), second_(second), floats_((first.floats + second.floats) / tiles) {
    step_ = depth > 0 ? (floats_ * static_cast<int64_t>(sizeof(float)) + depth - 1) / depth : 0;
  }

  // For the next tile. Where nothing is wanted the tile's own operand, which is in the cache, takes the place.
  void deal(Tile& tile) {
    tile.ahead = reinterpret_cast<const char*>(tile.b);
    tile.ahead_step = 0;
    if (floats_ == 0) return;
    const bool first = dealt_ < first_.floats;
    tile.ahead = reinterpret_cast<const char*>(first ? first_.data + dealt_ : second_.data + dealt_ - first_.floats);
    tile.ahead_step = step_;
    dealt_ += floats_;
  }

 private:
  const Ahead first_, second_;
  const int64_t floats_;
  int64_t step_ = 0, dealt_ = 0;
};

}  // namespace

void gemm_rows(const RowsProduct& product) {
  const int64_t tiles = tiles_of(product.rows), panels = panels_of(product.columns);
  Prefetch prefetch(product.ahead, {}, tiles * panels, product.depth);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t column = panel * kPanel;
    for (int64_t t = 0; t < tiles; ++t) {
      const Range rows = share_of(product.rows, t, tiles);
      float* c[kTileRows];
      for (int64_t i = rows.begin; i < rows.end; ++i) c[i - rows.begin] = product.c[i] + column;
      Tile tile{.a = product.a + rows.begin * kRowStride,
                .a_step = 1,
                .b = product.b + panel * product.b_stride,
                .b_step = kPanel,
                .depth = product.depth,
                .c = c,
                .columns = std::min(kPanel, product.columns - column),
                .accumulate = product.accumulate,
                .bias = product.bias == nullptr ? nullptr : product.bias + column};
      prefetch.deal(tile);
      run_tile<kRowStride>(tile, rows.end - rows.begin);
    }
  }
}

void gemm_columns(const ColumnsProduct& product) {
  int64_t group_tiles = 0;
  for (int64_t group = 0; group < product.rows; group += kPanel) {
    group_tiles += tiles_of(std::min(kPanel, product.rows - group));
  }
  Prefetch prefetch(product.ahead[0], product.ahead[1], group_tiles * panels_of(product.columns), product.depth);
  for (int64_t column = 0; column < product.columns; column += kPanel) {
    for (int64_t group = 0; group < product.rows; group += kPanel) {
      const int64_t group_rows = std::min(kPanel, product.rows - group), tiles = tiles_of(group_rows);
      for (int64_t t = 0; t < tiles; ++t) {
        const Range rows = share_of(group_rows, t, tiles);
        float* c[kTileRows];
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          c[i - rows.begin] = product.c + (group + i) * product.c_stride + column;
        }
        Tile tile{.a = product.a + group / kPanel * product.a_stride + rows.begin,
                  .a_step = kGroupStride,
                  .b = product.b + column / kPanel * product.b_stride,
                  .b_step = kPanel,
                  .depth = product.depth,
                  .c = c,
                  .columns = std::min(kPanel, product.columns - column),
                  .accumulate = product.accumulate};
        prefetch.deal(tile);
        run_tile<1>(tile, rows.end - rows.begin);
      }
    }
  }
}

}  // namespace engine::kernels
