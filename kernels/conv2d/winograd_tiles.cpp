#include "kernels/conv2d/winograd_tiles.h"

#include <algorithm>

#include "kernels/common/storage_vec.h"

namespace engine::kernels::winograd {
namespace {

struct Tile {
  Tile(const Tiling& tiling, int64_t index)
      : b(index / (tiling.high() * tiling.wide())),
        top(index / tiling.wide() % tiling.high() * kOutputs),
        left(index % tiling.wide() * kOutputs) {}
  int64_t b, top, left;
};

// Rows or columns [begin, end) of a window of `size` at `first` that lie inside of [0, extent).
Range inside(int64_t first, int64_t size, int64_t extent) {
  const int64_t begin = std::clamp<int64_t>(-first, 0, size);
  return {begin, std::clamp<int64_t>(extent - first, begin, size)};
}

// Loads column j of a window; the rows outside are zero.
template <int64_t kSize, typename T>
void load_column(const T* first, int64_t row_stride, Range rows, bool column_inside, Vector* to) {
  for (int64_t i = 0; i < kSize; ++i) {
    to[i] = column_inside && i >= rows.begin && i < rows.end ? load(first + i * row_stride) : Vector{};
  }
}

void store_points(const Vector (&points)[kPoints], float* to, int64_t plane) {
#pragma GCC unroll 6
  for (int64_t i = 0; i < kPoints; ++i) store(to + i * plane, points[i]);
}

// One vector of channels of one tile, `first` being the window's first pixel, which may lie outside.
template <typename T>
void transform_input(const T* first, int64_t row_stride, int64_t pixel_stride, Range rows, Range columns, float* to,
                     int64_t plane) {
  Vector half[kPoints][kPoints];  // [point of the rows, column]
  const bool whole = rows.end - rows.begin == kPoints && columns.end - columns.begin == kPoints;
#pragma GCC unroll 6
  for (int64_t j = 0; j < kPoints; ++j) {
    Vector column[kPoints];
    if (whole) {
#pragma GCC unroll 6
      for (int64_t i = 0; i < kPoints; ++i) column[i] = load(first + i * row_stride + j * pixel_stride);
    } else {
      load_column<kPoints>(first + j * pixel_stride, row_stride, rows, j >= columns.begin && j < columns.end, column);
    }
    inputs_to_points(column, column, 1);
#pragma GCC unroll 6
    for (int64_t i = 0; i < kPoints; ++i) half[i][j] = column[i];
  }
  for (int64_t i = 0; i < kPoints; ++i) {
    Vector points[kPoints];
    inputs_to_points(half[i], points, 1);
    store_points(points, to + i * kPoints * plane, plane);
  }
}

template <typename T>
void transform_gradient(const T* first, int64_t row_stride, int64_t pixel_stride, Range rows, Range columns, float* to,
                        int64_t plane) {
  Vector half[kPoints][kOutputs];
  for (int64_t j = 0; j < kOutputs; ++j) {
    Vector column[kOutputs], points[kPoints];
    load_column<kOutputs>(first + j * pixel_stride, row_stride, rows, j < columns.end, column);
    gradients_to_points(column, points, 1, 1);
#pragma GCC unroll 6
    for (int64_t i = 0; i < kPoints; ++i) half[i][j] = points[i];
  }
  for (int64_t i = 0; i < kPoints; ++i) {
    Vector points[kPoints];
    gradients_to_points(half[i], points, 1, 1);
    store_points(points, to + i * kPoints * plane, plane);
  }
}

void transform_output(const float* from, int64_t plane, Vector bias, Vector (&outputs)[kOutputs][kOutputs]) {
  Vector half[kPoints][kOutputs];  // [row of points, output column]
  for (int64_t i = 0; i < kPoints; ++i) {
    Vector points[kPoints];
#pragma GCC unroll 6
    for (int64_t j = 0; j < kPoints; ++j) points[j] = load(from + (i * kPoints + j) * plane);
    points_to_outputs(points, half[i], 1, 1);
  }
#pragma GCC unroll 4
  for (int64_t j = 0; j < kOutputs; ++j) points_to_outputs(&half[0][j], &outputs[0][j], kOutputs, kOutputs);
  for (auto& row : outputs) {
    for (Vector& output : row) output += bias;
  }
}

}  // namespace

template <typename T>
void transform_inputs(const Picture<T>& x, const Tiling& tiling, int64_t pad, Range tiles, const Planes& to) {
  for (int64_t index = tiles.begin; index < tiles.end; ++index) {
    const Tile tile(tiling, index);
    const int64_t top = tile.top - pad, left = tile.left - pad;
    const Range rows = inside(top, kPoints, x.h), columns = inside(left, kPoints, x.w);
    const T* first = x.data + ((tile.b * x.h + top) * x.w + left) * x.c;
    for (int64_t channel = 0; channel < x.c; channel += kLanes) {
      transform_input(first + channel, x.w * x.c, x.c, rows, columns, to.data + to.offset(index - tiles.begin, channel),
                      to.plane);
    }
  }
}

template <typename T>
void transform_gradients(const Picture<T>& grad_y, const Tiling& tiling, Range tiles, const Planes& to) {
  for (int64_t index = tiles.begin; index < tiles.end; ++index) {
    const Tile tile(tiling, index);
    const Range rows = inside(tile.top, kOutputs, grad_y.h), columns = inside(tile.left, kOutputs, grad_y.w);
    const T* first = grad_y.data + ((tile.b * grad_y.h + tile.top) * grad_y.w + tile.left) * grad_y.c;
    for (int64_t channel = 0; channel < grad_y.c; channel += kLanes) {
      transform_gradient(first + channel, grad_y.w * grad_y.c, grad_y.c, rows, columns,
                         to.data + to.offset(index - tiles.begin, channel), to.plane);
    }
  }
}

template <typename T>
void transform_outputs(const Planes& from, const Tiling& tiling, Range tiles, Range channels,
                       const OutputPicture<T>& y) {
  for (int64_t index = tiles.begin; index < tiles.end; ++index) {
    const Tile tile(tiling, index);
    const int64_t rows = std::min(kOutputs, tiling.out_h - tile.top);
    const int64_t columns = std::min(kOutputs, tiling.out_w - tile.left);
    T* first = y.data + ((tile.b * tiling.out_h + tile.top) * tiling.out_w + tile.left) * y.c;
    for (int64_t channel = channels.begin; channel < channels.end; channel += kLanes) {
      Vector outputs[kOutputs][kOutputs];
      transform_output(from.data + from.offset(index - tiles.begin, channel - channels.begin), from.plane,
                       y.bias == nullptr ? Vector{} : load(y.bias + channel), outputs);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          store(first + (i * tiling.out_w + j) * y.c + channel, outputs[i][j]);
        }
      }
    }
  }
}

template void transform_inputs(const Picture<float>&, const Tiling&, int64_t, Range, const Planes&);
template void transform_inputs(const Picture<Half>&, const Tiling&, int64_t, Range, const Planes&);
template void transform_inputs(const Picture<BFloat16>&, const Tiling&, int64_t, Range, const Planes&);
template void transform_gradients(const Picture<float>&, const Tiling&, Range, const Planes&);
template void transform_gradients(const Picture<Half>&, const Tiling&, Range, const Planes&);
template void transform_gradients(const Picture<BFloat16>&, const Tiling&, Range, const Planes&);
template void transform_outputs(const Planes&, const Tiling&, Range, Range, const OutputPicture<float>&);
template void transform_outputs(const Planes&, const Tiling&, Range, Range, const OutputPicture<Half>&);
template void transform_outputs(const Planes&, const Tiling&, Range, Range, const OutputPicture<BFloat16>&);

}  // namespace engine::kernels::winograd
