#include <algorithm>
#include <vector>

#include "kernels/common/parallel.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/matmul/matmul.h"

namespace engine::kernels {
namespace {

// f(input pixel, tap) for the taps of output pixel (i, j) that lie inside of the image.
template <typename F>
void for_each_tap(const Conv2dShape& shape, int64_t i, int64_t j, F&& f) {
  for (int64_t u = 0; u < shape.r; ++u) {
    const int64_t row = i * shape.stride_h - shape.pad_h + u * shape.dilation_h;
    if (row < 0 || row >= shape.h) continue;
    for (int64_t v = 0; v < shape.s; ++v) {
      const int64_t column = j * shape.stride_w - shape.pad_w + v * shape.dilation_w;
      if (column >= 0 && column < shape.w) f(row * shape.w + column, u * shape.s + v);
    }
  }
}

// f(output pixel, input pixel, tap) for one image.
template <typename F>
void for_each_product(const Conv2dShape& shape, F&& f) {
  for (int64_t i = 0; i < shape.out_h(); ++i) {
    for (int64_t j = 0; j < shape.out_w(); ++j) {
      for_each_tap(shape, i, j, [&](int64_t x_pixel, int64_t tap) { f(i * shape.out_w() + j, x_pixel, tap); });
    }
  }
}

template <typename T>
double dot(const T* a, const T* b, int64_t count) {
  double sum = 0;
  for (int64_t e = 0; e < count; ++e) sum += static_cast<double>(a[e]) * static_cast<double>(b[e]);
  return sum;
}

template <typename T>
void add_scaled(double* sums, double factor, const T* values, int64_t count) {
  for (int64_t e = 0; e < count; ++e) sums[e] += factor * static_cast<double>(values[e]);
}

}  // namespace

template <typename T>
void conv2d_forward_cpu(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape) {
  shape.require_valid();
  const int64_t group_c = shape.c / shape.groups, group_k = shape.k / shape.groups, taps = shape.r * shape.s;
  const int64_t x_image = shape.h * shape.w * shape.c, y_image = shape.out_h() * shape.out_w() * shape.k;
  parallel_for(shape.n, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(y_image));
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t index = 0; index < y_image; ++index) {
        sums[static_cast<size_t>(index)] = bias == nullptr ? 0.0 : static_cast<double>(bias[index % shape.k]);
      }
      for_each_product(shape, [&](int64_t y_pixel, int64_t x_pixel, int64_t tap) {
        double* out = sums.data() + y_pixel * shape.k;
        const T* in = x + b * x_image + x_pixel * shape.c;
        for (int64_t q = 0; q < shape.k; ++q) {
          out[q] += dot(in + q / group_k * group_c, weight + (q * taps + tap) * group_c, group_c);
        }
      });
      std::copy(sums.begin(), sums.end(), y + b * y_image);
    }
  });
}

template <typename T>
void conv2d_backward_data_cpu(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape) {
  shape.require_valid();
  const int64_t group_c = shape.c / shape.groups, group_k = shape.k / shape.groups, taps = shape.r * shape.s;
  const int64_t x_image = shape.h * shape.w * shape.c, y_image = shape.out_h() * shape.out_w() * shape.k;
  parallel_for(shape.n, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(x_image));
    for (int64_t b = begin; b < end; ++b) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for_each_product(shape, [&](int64_t y_pixel, int64_t x_pixel, int64_t tap) {
        const T* in = grad_y + b * y_image + y_pixel * shape.k;
        double* out = sums.data() + x_pixel * shape.c;
        for (int64_t q = 0; q < shape.k; ++q) {
          add_scaled(out + q / group_k * group_c, static_cast<double>(in[q]), weight + (q * taps + tap) * group_c,
                     group_c);
        }
      });
      std::copy(sums.begin(), sums.end(), grad_x + b * x_image);
    }
  });
}

template <typename T>
void conv2d_backward_weights_cpu(const T* x, const T* grad_y, T* grad_weight, T* grad_bias, const Conv2dShape& shape) {
  shape.require_valid();
  const int64_t group_c = shape.c / shape.groups, group_k = shape.k / shape.groups, taps = shape.r * shape.s;
  const int64_t x_image = shape.h * shape.w * shape.c, y_image = shape.out_h() * shape.out_w() * shape.k;
  parallel_for(shape.k, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(taps * group_c));
    for (int64_t q = begin; q < end; ++q) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t b = 0; b < shape.n; ++b) {
        for_each_product(shape, [&](int64_t y_pixel, int64_t x_pixel, int64_t tap) {
          const auto factor = static_cast<double>(grad_y[b * y_image + y_pixel * shape.k + q]);
          add_scaled(sums.data() + tap * group_c, factor, x + b * x_image + x_pixel * shape.c + q / group_k * group_c,
                     group_c);
        });
      }
      std::copy(sums.begin(), sums.end(), grad_weight + q * taps * group_c);
    }
  });
  if (grad_bias != nullptr) column_sum(grad_y, grad_bias, shape.y_numel() / shape.k, shape.k);
}

template void conv2d_forward_cpu(const float*, const float*, const float*, float*, const Conv2dShape&);
template void conv2d_forward_cpu(const double*, const double*, const double*, double*, const Conv2dShape&);
template void conv2d_backward_data_cpu(const float*, const float*, float*, const Conv2dShape&);
template void conv2d_backward_data_cpu(const double*, const double*, double*, const Conv2dShape&);
template void conv2d_backward_weights_cpu(const float*, const float*, float*, float*, const Conv2dShape&);
template void conv2d_backward_weights_cpu(const double*, const double*, double*, double*, const Conv2dShape&);

}  // namespace engine::kernels
