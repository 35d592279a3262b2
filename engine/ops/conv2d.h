#pragma once
// Two-dimensional convolution (cross-correlation, as torch.nn.functional.conv2d).

#include "engine/core/tensor.h"
#include "kernels/conv2d/conv2d.h"

namespace engine {

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};

/// x [n, h, w, c], weight [k, r, s, c / groups], bias [k] or undefined -> [n, out_h, out_w, k]. The tape keeps x and
/// weight. Throws engine::Error "[conv2d] ..." for shapes that do not fit.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor(), const Conv2dOptions& options = {});

/// The checks that conv2d makes and the extents that they give, for operations it is fused into.
kernels::Conv2dShape conv2d_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Conv2dOptions& options);

}  // namespace engine
