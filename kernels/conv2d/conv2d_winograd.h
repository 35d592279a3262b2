#pragma once
// 3x3 convolutions of stride 1 through Winograd's minimal filtering (winograd_transforms.h): 36 products of matrices in
// place of the 144 that a direct convolution needs for the same tile. Contracts as for the fast path in conv2d.h.
// Against FP64 the largest error of FP32 was at most 2.4 times a direct convolution's (tests/support/tolerance.cpp has
// figures). Small filters are transformed once and each thread takes blocks of tiles through all stages in its cache;
// large ones would go to memory and back, so they are transformed piece by piece where they are used. Scratch memory
// stays below 25 MB on two threads for ResNet-50's filters. T: float, Half or BFloat16; 16-bit values become floats as
// tiles are read, and results are rounded as they are written.

#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

/// Whether the three functions below take the shape: 3x3, stride 1, no dilation or groups, padding at most 2, and
/// channels in multiples of a vector.
bool conv2d_winograd_takes(const Conv2dShape& shape);

/// Tiles of 4 x 4 outputs that the pictures are cut into.
int64_t conv2d_winograd_tiles(const Conv2dShape& shape);

template <typename T>
void conv2d_forward_winograd(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape);
template <typename T>
void conv2d_backward_data_winograd(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape);

/// Writes no bias gradient. With up to 29,000 filters of 3x3 (k * c) each thread sums over its own tiles, and the sums
/// are added in a fixed order, so the result depends on the number of threads; beyond that it does not.
template <typename T>
void conv2d_backward_weights_winograd(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape);

}  // namespace engine::kernels
