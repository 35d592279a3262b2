#include <algorithm>
#include <vector>

#include "kernels/avg_pool2d/avg_pool2d.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"

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
void scaled_add(const T* from, Wide<T>* to, Wide<T> scale, int64_t count) {
  if constexpr (kNarrow<T>) {
    for_each_vector(
        count, [=]<typename V>(int64_t i) { store_as(to + i, load_as<V>(to + i) + load_as<V>(from + i) * scale); });
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i] * scale;
  }
}

// Sums that become `count` elements: the elements themselves, or floats that store() rounds into them.
template <typename T>
class Sums {
 public:
  explicit Sums(int64_t count) : count_(count), floats_(kNarrow<T> ? static_cast<size_t>(count) : 0) {}

  Wide<T>* zeros(T* target) {
    if constexpr (kNarrow<T>) {
      std::fill(floats_.begin(), floats_.end(), 0.0F);
      return floats_.data();
    } else {
      std::fill_n(target, count_, T{0});
      return target;
    }
  }
  void store(T* target) const {
    if constexpr (kNarrow<T>) narrow(floats_.data(), target, count_);
  }

 private:
  int64_t count_;
  std::vector<float> floats_;
};

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
  const Wide<T> scale = Wide<T>{1} / static_cast<Wide<T>>(shape.kernel_h * shape.kernel_w);
  parallel_for(shape.n, pictures_a_thread(in_size), [=](int64_t begin, int64_t end) {
    Sums<T> sums(out_size);
    for (int64_t n = begin; n < end; ++n) {
      Wide<T>* sum = sums.zeros(y + n * out_size);
      for_each_pair(shape,
                    [&](int64_t out, int64_t in) { scaled_add(x + n * in_size + in, sum + out, scale, shape.c); });
      sums.store(y + n * out_size);
    }
  });
}

template <typename T>
void avg_pool2d_backward_cpu(const Pool2dShape& shape, const T* grad_y, T* grad_x) {
  const int64_t in_size = shape.h * shape.w * shape.c, out_size = shape.out_h() * shape.out_w() * shape.c;
  const Wide<T> scale = Wide<T>{1} / static_cast<Wide<T>>(shape.kernel_h * shape.kernel_w);
  parallel_for(shape.n, pictures_a_thread(in_size), [=](int64_t begin, int64_t end) {
    Sums<T> sums(in_size);
    for (int64_t n = begin; n < end; ++n) {
      Wide<T>* sum = sums.zeros(grad_x + n * in_size);
      for_each_pair(
          shape, [&](int64_t out, int64_t in) { scaled_add(grad_y + n * out_size + out, sum + in, scale, shape.c); });
      sums.store(grad_x + n * in_size);
    }
  });
}

template <typename T>
void global_avg_pool_forward_cpu(const T* x, T* y, int64_t n, int64_t spatial, int64_t c) {
  const Wide<T> scale = Wide<T>{1} / static_cast<Wide<T>>(spatial);
  parallel_for(n, pictures_a_thread(spatial * c), [=](int64_t begin, int64_t end) {
    Sums<T> sums(c);
    for (int64_t picture = begin; picture < end; ++picture) {
      Wide<T>* sum = sums.zeros(y + picture * c);
      for (int64_t row = picture * spatial; row < (picture + 1) * spatial; ++row) {
        scaled_add(x + row * c, sum, Wide<T>{1}, c);
      }
      for (int64_t i = 0; i < c; ++i) sum[i] *= scale;
      sums.store(y + picture * c);
    }
  });
}

template <typename T>
void global_avg_pool_backward_cpu(const T* grad_y, T* grad_x, int64_t n, int64_t spatial, int64_t c) {
  const Wide<T> scale = Wide<T>{1} / static_cast<Wide<T>>(spatial);
  parallel_for(n, pictures_a_thread(spatial * c), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin * spatial; row < end * spatial; ++row) {
      const T* from = grad_y + row / spatial * c;
      T* to = grad_x + row * c;
      if constexpr (kNarrow<T>) {
        for_each_vector(c, [=]<typename V>(int64_t i) { store_as(to + i, load_as<V>(from + i) * scale); });
      } else {
        for (int64_t i = 0; i < c; ++i) to[i] = from[i] * scale;
      }
    }
  });
}

template void avg_pool2d_forward_cpu(const Pool2dShape&, const float*, float*);
template void avg_pool2d_forward_cpu(const Pool2dShape&, const double*, double*);
template void avg_pool2d_forward_cpu(const Pool2dShape&, const Half*, Half*);
template void avg_pool2d_forward_cpu(const Pool2dShape&, const BFloat16*, BFloat16*);
template void avg_pool2d_backward_cpu(const Pool2dShape&, const float*, float*);
template void avg_pool2d_backward_cpu(const Pool2dShape&, const double*, double*);
template void avg_pool2d_backward_cpu(const Pool2dShape&, const Half*, Half*);
template void avg_pool2d_backward_cpu(const Pool2dShape&, const BFloat16*, BFloat16*);
template void global_avg_pool_forward_cpu(const float*, float*, int64_t, int64_t, int64_t);
template void global_avg_pool_forward_cpu(const double*, double*, int64_t, int64_t, int64_t);
template void global_avg_pool_forward_cpu(const Half*, Half*, int64_t, int64_t, int64_t);
template void global_avg_pool_forward_cpu(const BFloat16*, BFloat16*, int64_t, int64_t, int64_t);
template void global_avg_pool_backward_cpu(const float*, float*, int64_t, int64_t, int64_t);
template void global_avg_pool_backward_cpu(const double*, double*, int64_t, int64_t, int64_t);
template void global_avg_pool_backward_cpu(const Half*, Half*, int64_t, int64_t, int64_t);
template void global_avg_pool_backward_cpu(const BFloat16*, BFloat16*, int64_t, int64_t, int64_t);

}  // namespace engine::kernels
