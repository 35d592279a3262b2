#include <algorithm>
#include <cmath>

#include "kernels/max_pool2d/max_pool2d.h"

namespace engine::kernels {
namespace {

// Calls f(output element, input element, place in the window) for every pair that lies inside the picture, each
// output's places in row-major order.
template <typename F>
void for_each_place(const Pool2dShape& s, F&& f) {
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t oh = 0; oh < s.out_h(); ++oh) {
      for (int64_t ow = 0; ow < s.out_w(); ++ow) {
        for (int64_t place = 0; place < s.kernel_h * s.kernel_w; ++place) {
          const int64_t h = oh * s.stride_h - s.pad_h + place / s.kernel_w;
          const int64_t w = ow * s.stride_w - s.pad_w + place % s.kernel_w;
          if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
          const int64_t out = ((n * s.out_h() + oh) * s.out_w() + ow) * s.c, in = ((n * s.h + h) * s.w + w) * s.c;
          for (int64_t c = 0; c < s.c; ++c) f(out + c, in + c, place);
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void max_pool2d_forward_cpu(const Pool2dShape& shape, const T* x, T* y, uint8_t* index) {
  const auto first_row = [&](int64_t out) { return std::max<int64_t>(0, shape.pad_h - out * shape.stride_h); };
  const auto first_column = [&](int64_t out) { return std::max<int64_t>(0, shape.pad_w - out * shape.stride_w); };
  for_each_place(shape, [&](int64_t out, int64_t in, int64_t place) {
    const int64_t ow = out / shape.c % shape.out_w(), oh = out / shape.c / shape.out_w() % shape.out_h();
    const bool first = place == first_row(oh) * shape.kernel_w + first_column(ow);
    if (!first && !(x[in] > y[out]) && !std::isnan(x[in])) return;
    y[out] = x[in];
    if (index != nullptr) index[out] = static_cast<uint8_t>(place);
  });
}

template <typename T>
void max_pool2d_backward_cpu(const Pool2dShape& shape, const T* grad_y, const uint8_t* index, T* grad_x) {
  std::fill_n(grad_x, shape.n * shape.h * shape.w * shape.c, T{0});
  for_each_place(shape, [&](int64_t out, int64_t in, int64_t place) {
    if (index[out] == place) grad_x[in] += grad_y[out];
  });
}

template void max_pool2d_forward_cpu(const Pool2dShape&, const float*, float*, uint8_t*);
template void max_pool2d_forward_cpu(const Pool2dShape&, const double*, double*, uint8_t*);
template void max_pool2d_backward_cpu(const Pool2dShape&, const float*, const uint8_t*, float*);
template void max_pool2d_backward_cpu(const Pool2dShape&, const double*, const uint8_t*, double*);

}  // namespace engine::kernels
