#pragma once
// One row of a max pool in either direction: what the plain kernel and the one fused with batch norm share.

#include <array>
#include <cstdint>

#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

/// The row of the picture ([w, c]) under each row of a window; null where it lies outside of the picture.
using WindowRows = std::array<const float*, 256>;

/// y and index (or null): one output row, [out_w, c].
void max_pool_row(const Pool2dShape& shape, const WindowRows& rows, float* y, uint8_t* index);

/// grad_x: row h of picture n, [w, c], overwritten; grad_y and index: whole tensors. T: float, Half, BFloat16.
template <typename T>
void max_unpool_row(const Pool2dShape& shape, int64_t n, int64_t h, const T* grad_y, const uint8_t* index,
                    float* grad_x);

}  // namespace engine::kernels
