#pragma once
// Pooling over the picture axes of [n, h, w, c].

#include "engine/core/tensor.h"
#include "kernels/common/pool2d_shape.h"

namespace engine {

struct Pool2dOptions {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;  // at most half the kernel
};

/// Maxima of windows; the first of equal ones gets the gradient, NaN wins. The tape keeps one byte per output.
/// Kernels up to 16. Throws engine::Error "[max_pool2d] ...".
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);

/// Means of windows; padding counts as zeros (PyTorch's count_include_pad). Throws engine::Error "[avg_pool2d] ...".
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);

/// Means of whole pictures: [n, h, w, c] -> [n, c].
Tensor global_avg_pool(const Tensor& x);

/// The geometry of a pool over x, checked; `op` is named in the error.
kernels::Pool2dShape checked_pool_shape(const char* op, const Tensor& x, const Pool2dOptions& options);

}  // namespace engine
