#pragma once
// Pictures cut into Winograd's tiles, and their transforms: what the three directions share.

#include <cstdint>

#include "kernels/common/parallel.h"
#include "kernels/conv2d/winograd_transforms.h"

namespace engine::kernels::winograd {

/// The tiles of an output picture, numbered row by row over all pictures. Each has 4 x 4 outputs, fewer at the right
/// and lower edge.
struct Tiling {
  int64_t n, out_h, out_w;
  int64_t high() const { return (out_h + kOutputs - 1) / kOutputs; }
  int64_t wide() const { return (out_w + kOutputs - 1) / kOutputs; }
  int64_t count() const { return n * high() * wide(); }
};

/// T, here and below: float, Half or BFloat16.
template <typename T>
struct Picture {
  const T* data;
  int64_t h, w, c;  // c is a multiple of a vector
};

/// 36 matrices [tiles, channels], one for each product. Channel q of tile t of matrix i lies at
/// data[i * plane + q / width * block + t * row + q % width].
struct Planes {
  float* data;
  int64_t plane;
  int64_t width, block, row;
  int64_t offset(int64_t tile, int64_t channel) const { return channel / width * block + tile * row + channel % width; }
};

/// Transforms the 6 x 6 inputs of tiles [tiles.begin, tiles.end), which begin `pad` pixels left of and above a tile's
/// outputs and are zero outside of the picture, into rows 0, 1, ... of the planes.
template <typename T>
void transform_inputs(const Picture<T>& x, const Tiling& tiling, int64_t pad, Range tiles, const Planes& to);

/// Transforms the tiles of grad_y for F(3x3, 4x4); gradients outside of the picture count as zero.
template <typename T>
void transform_gradients(const Picture<T>& grad_y, const Tiling& tiling, Range tiles, const Planes& to);

template <typename T>
struct OutputPicture {
  T* data;
  int64_t c;
  const T* bias;  // [c], added where not null
};

/// Transforms rows 0, 1, ... of the planes back into channels [channels.begin, channels.end) of tiles of y; the planes'
/// channel 0 is channels.begin.
template <typename T>
void transform_outputs(const Planes& from, const Tiling& tiling, Range tiles, Range channels,
                       const OutputPicture<T>& y);

}  // namespace engine::kernels::winograd
