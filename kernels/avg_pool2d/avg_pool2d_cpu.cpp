#include <algorithm>

#include "kernels/avg_pool2d/avg_pool2d.h"
#include "kernels/common/parallel.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 14;

int64_t pictures_a_thread(int64_t picture_size) { return std::max<int64_t>(kGrain / (picture_size + 1), 1); }

// The part of a window's rows (or columns) that lies inside the picture.
Range inside(int64_t out, int64_t stride, int64_t padding, int64_t kernel, int64_t extent) {
  const int64_t begin = out * stride - padding;
  return {std::max<int64_t>(begin, 0), std::min(begin + kernel, extent)};
}

template <typename T>
void scaled_add(const T* from, T* to, T scale, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i] * scale;
}

// Calls f(output pixel, input pixel), both as offsets of their channels within the picture, for all pairs.
template <typename F>
void for_each_pair(const Pool2dShape& s, F&& f) {
  for (int64_t oh = 0; oh < s.out_h(); ++oh) {
    const Range rows = inside(oh, s.stride_h, s.pad_h, s.kernel_h, s.h);
    for (int64_t ow = 0; ow < s.out_w(); ++ow) {
      const Range columns = inside(ow, s.stride_w, s.pad_w, s.kernel_w, s.w);
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        for (int64_t w = columns.begin; w < columns.end; ++w) f((oh * s.out_w() + ow) * s.c, (h * s.w + w) * s.c);
      }
    }
  }
}

}  // namespace

template <typename T>
void avg_pool2d_forward_cpu(const Pool2dShape& shape, const T* x, T* y) {
  const int64_t in_size = shape.h * shape.w * shape.c, out_size = shape.out_h() * shape.out_w() * shape.c;
  const T scale = T{1} / static_cast<T>(shape.kernel_h * shape.kernel_w);
  parallel_for(shape.n, pictures_a_thread(in_size), [=](int64_t begin, int64_t end) {
    std::fill(y + begin * out_size, y + end * out_size, T{0});
    for (int64_t n = begin; n < end; ++n) {
      for_each_pair(shape, [&](int64_t out, int64_t in) {
        scaled_add(x + n * in_size + in, y + n * out_size + out, scale, shape.c);
      });
    }
  });
}

template <typename T>
void avg_pool2d_backward_cpu(const Pool2dShape& shape, const T* grad_y, T* grad_x) {
  const int64_t in_size = shape.h * shape.w * shape.c, out_size = shape.out_h() * shape.out_w() * shape.c;
  const T scale = T{1} / static_cast<T>(shape.kernel_h * shape.kernel_w);
  parallel_for(shape.n, pictures_a_thread(in_size), [=](int64_t begin, int64_t end) {
    std::fill(grad_x + begin * in_size, grad_x + end * in_size, T{0});
    for (int64_t n = begin; n < end; ++n) {
      for_each_pair(shape, [&](int64_t out, int64_t in) {
        scaled_add(grad_y + n * out_size + out, grad_x + n * in_size + in, scale, shape.c);
      });
    }
  });
}

template <typename T>
void global_avg_pool_forward_cpu(const T* x, T* y, int64_t n, int64_t spatial, int64_t c) {
  const T scale = T{1} / static_cast<T>(spatial);
  parallel_for(n, pictures_a_thread(spatial * c), [=](int64_t begin, int64_t end) {
    std::fill(y + begin * c, y + end * c, T{0});
    for (int64_t row = begin * spatial; row < end * spatial; ++row) {
      scaled_add(x + row * c, y + row / spatial * c, T{1}, c);
    }
    for (int64_t i = begin * c; i < end * c; ++i) y[i] *= scale;
  });
}

template <typename T>
void global_avg_pool_backward_cpu(const T* grad_y, T* grad_x, int64_t n, int64_t spatial, int64_t c) {
  const T scale = T{1} / static_cast<T>(spatial);
  parallel_for(n, pictures_a_thread(spatial * c), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin * spatial; row < end * spatial; ++row) {
      const T* from = grad_y + row / spatial * c;
      for (int64_t i = 0; i < c; ++i) grad_x[row * c + i] = from[i] * scale;
    }
  });
}

template void avg_pool2d_forward_cpu(const Pool2dShape&, const float*, float*);
template void avg_pool2d_forward_cpu(const Pool2dShape&, const double*, double*);
template void avg_pool2d_backward_cpu(const Pool2dShape&, const float*, float*);
template void avg_pool2d_backward_cpu(const Pool2dShape&, const double*, double*);
template void global_avg_pool_forward_cpu(const float*, float*, int64_t, int64_t, int64_t);
template void global_avg_pool_forward_cpu(const double*, double*, int64_t, int64_t, int64_t);
template void global_avg_pool_backward_cpu(const float*, float*, int64_t, int64_t, int64_t);
template void global_avg_pool_backward_cpu(const double*, double*, int64_t, int64_t, int64_t);

}  // namespace engine::kernels
