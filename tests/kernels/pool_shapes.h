#pragma once
// Pictures and windows for tests of pooling on the device.

#include <cstdint>
#include <vector>

#include "kernels/common/pool2d_shape.h"

namespace engine::testing {

inline int64_t in_size(const kernels::Pool2dShape& s) { return s.n * s.h * s.w * s.c; }
inline int64_t out_size(const kernels::Pool2dShape& s) { return s.n * s.out_h() * s.out_w() * s.c; }

/// A square window over square pictures of `extent`.
inline kernels::Pool2dShape square(int64_t n, int64_t extent, int64_t c, int64_t kernel, int64_t stride,
                                   int64_t padding) {
  return {.n = n,
          .h = extent,
          .w = extent,
          .c = c,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = padding,
          .pad_w = padding};
}

/// Windows that overlap, touch and leave gaps; channels for wide and for narrow accesses; nothing at all.
inline std::vector<kernels::Pool2dShape> pool_shapes() {
  return {
      square(2, 12, 64, 3, 2, 1),
      square(3, 8, 1, 2, 2, 0),
      square(1, 9, 17, 5, 2, 2),
      square(2, 7, 8, 3, 1, 1),
      square(1, 16, 2, 16, 1, 0),
      square(1, 1, 72, 2, 1, 1),
      square(2, 9, 24, 2, 3, 0),
      square(0, 4, 8, 2, 2, 0),
      square(1, 1, 1, 1, 1, 0),
      square(2050, 2, 1, 2, 2, 0),
      {.n = 1,
       .h = 7,
       .w = 5,
       .c = 3,
       .kernel_h = 3,
       .kernel_w = 2,
       .stride_h = 1,
       .stride_w = 3,
       .pad_h = 1,
       .pad_w = 1},
      {.n = 2, .h = 6, .w = 11, .c = 16, .kernel_h = 2, .kernel_w = 7, .stride_h = 4, .stride_w = 2, .pad_w = 3},
  };
}

}  // namespace engine::testing
