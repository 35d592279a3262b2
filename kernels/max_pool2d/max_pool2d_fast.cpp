#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/max_pool2d/max_pool2d.h"
#include "kernels/max_pool2d/rows.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kBlock = 64;  // channels whose maximum stays in registers

struct Best {
  std::array<float, kBlock> value;
  std::array<int32_t, kBlock> place;
};

void start(const float* x, int32_t place, int64_t width, Best& best) {
  for (int64_t c = 0; c < width; ++c) {
    best.value[c] = x[c];
    best.place[c] = place;
  }
}

void compare(const float* x, int32_t place, int64_t width, Best& best) {
#pragma omp simd
  for (int64_t c = 0; c < width; ++c) {
    const bool wins = (x[c] > best.value[c]) | (x[c] != x[c]);  // a NaN wins over everything
    best.value[c] = wins ? x[c] : best.value[c];
    best.place[c] = wins ? place : best.place[c];
  }
}

// `width` is a constant for whole blocks, which is what lets the loops above unroll.
void pool_block(const Pool2dShape& s, const WindowRows& rows, int64_t first_column, int64_t channel, int64_t width,
                Best& best) {
  bool started = false;
  for (int64_t r = 0; r < s.kernel_h; ++r) {
    const float* row = rows[static_cast<size_t>(r)];
    if (row == nullptr) continue;
    for (int64_t k = 0; k < s.kernel_w; ++k) {
      const int64_t column = first_column + k;
      if (column < 0 || column >= s.w) continue;
      const auto place = static_cast<int32_t>(r * s.kernel_w + k);
      const float* x = row + column * s.c + channel;
      if (started) {
        compare(x, place, width, best);
      } else {
        start(x, place, width, best);
      }
      started = true;
    }
  }
}

template <typename T>
void add_where_won(const T* grad_y, const uint8_t* index, int32_t place, float* grad_x, int64_t c) {
  if constexpr (kNarrow<T>) {
    typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
    int64_t i = 0;
    for (; i + kLanes <= c; i += kLanes) {
      Bytes places;
      std::memcpy(&places, index + i, sizeof(places));
      const auto won = __builtin_convertvector(places, WordVector) == static_cast<uint32_t>(place);
      store(grad_x + i, load(grad_x + i) + (won ? load(grad_y + i) : Vector{}));
    }
    for (; i < c; ++i) grad_x[i] += index[i] == place ? static_cast<float>(grad_y[i]) : 0.0F;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < c; ++i) grad_x[i] += index[i] == place ? grad_y[i] : 0.0F;
  }
}

// Rows as floats: the tensor's own memory where it holds floats, else converted.
template <typename T>
class RowBuffer {
 public:
  RowBuffer(int64_t in, int64_t out)
      : out_(out),
        read_(kNarrow<T> ? static_cast<size_t>(in) : 0),
        target_(kNarrow<T> ? static_cast<size_t>(out) : 0) {}

  const float* read(const T* row, int64_t place, int64_t count) {
    if constexpr (kNarrow<T>) {
      widen(row, read_.data() + place, count);
      return read_.data() + place;
    } else {
      return row;
    }
  }
  float* target(T* row) {
    if constexpr (kNarrow<T>) {
      return target_.data();
    } else {
      return row;
    }
  }
  void store(T* row) const {
    if constexpr (kNarrow<T>) narrow(target_.data(), row, out_);
  }

 private:
  int64_t out_;
  std::vector<float> read_, target_;
};

// The outputs along one axis whose windows hold a position.
Range covering(int64_t position, int64_t kernel, int64_t stride, int64_t padding, int64_t outputs) {
  const int64_t past = position + padding - kernel;
  const int64_t begin = past < 0 ? 0 : past / stride + 1;
  return {begin, std::min((position + padding) / stride + 1, outputs)};
}

}  // namespace

void max_pool_row(const Pool2dShape& shape, const WindowRows& rows, float* y, uint8_t* index) {
  for (int64_t ow = 0; ow < shape.out_w(); ++ow) {
    const int64_t column = ow * shape.stride_w - shape.pad_w;
    for (int64_t channel = 0; channel < shape.c; channel += kBlock) {
      const int64_t width = std::min(kBlock, shape.c - channel), out = ow * shape.c + channel;
      Best best;
      if (width == kBlock) {
        pool_block(shape, rows, column, channel, kBlock, best);
      } else {
        pool_block(shape, rows, column, channel, width, best);
      }
      std::copy_n(best.value.begin(), width, y + out);
      if (index != nullptr) std::copy_n(best.place.begin(), width, index + out);
    }
  }
}

template <typename T>
void max_unpool_row(const Pool2dShape& shape, int64_t n, int64_t h, const T* grad_y, const uint8_t* index,
                    float* grad_x) {
  const int64_t out_h = shape.out_h(), out_w = shape.out_w();
  const Range rows = covering(h, shape.kernel_h, shape.stride_h, shape.pad_h, out_h);
  std::fill_n(grad_x, shape.w * shape.c, 0.0F);
  for (int64_t w = 0; w < shape.w; ++w) {
    const Range columns = covering(w, shape.kernel_w, shape.stride_w, shape.pad_w, out_w);
    for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
      const int64_t window_row = h + shape.pad_h - oh * shape.stride_h;
      for (int64_t ow = columns.begin; ow < columns.end; ++ow) {
        const int64_t place = window_row * shape.kernel_w + w + shape.pad_w - ow * shape.stride_w;
        const int64_t out = ((n * out_h + oh) * out_w + ow) * shape.c;
        add_where_won(grad_y + out, index + out, static_cast<int32_t>(place), grad_x + w * shape.c, shape.c);
      }
    }
  }
}

template <typename T>
void max_pool2d_forward_fast(const Pool2dShape& shape, const T* x, T* y, uint8_t* index) {
  const int64_t out_h = shape.out_h(), out_row = shape.out_w() * shape.c, in_row = shape.w * shape.c;
  const int64_t grain = std::max<int64_t>(kGrain / (out_row * shape.kernel_h), 1);
  parallel_for(shape.n * out_h, grain, [&, x, y, index](int64_t begin, int64_t end) {
    RowBuffer<T> buffer(shape.kernel_h * in_row, out_row);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % out_h * shape.stride_h - shape.pad_h;
      WindowRows rows;
      for (int64_t r = 0; r < shape.kernel_h; ++r) {
        const int64_t h = first + r;
        rows[static_cast<size_t>(r)] =
            h < 0 || h >= shape.h ? nullptr : buffer.read(x + (i / out_h * shape.h + h) * in_row, r * in_row, in_row);
      }
      max_pool_row(shape, rows, buffer.target(y + i * out_row), index == nullptr ? nullptr : index + i * out_row);
      buffer.store(y + i * out_row);
    }
  });
}

template <typename T>
void max_pool2d_backward_fast(const Pool2dShape& shape, const T* grad_y, const uint8_t* index, T* grad_x) {
  const int64_t in_row = shape.w * shape.c;
  parallel_for(shape.n * shape.h, std::max<int64_t>(kGrain / in_row, 1),
               [&, grad_y, index, grad_x](int64_t begin, int64_t end) {
                 RowBuffer<T> buffer(0, in_row);
                 for (int64_t i = begin; i < end; ++i) {
                   max_unpool_row(shape, i / shape.h, i % shape.h, grad_y, index, buffer.target(grad_x + i * in_row));
                   buffer.store(grad_x + i * in_row);
                 }
               });
}

template void max_unpool_row(const Pool2dShape&, int64_t, int64_t, const float*, const uint8_t*, float*);
template void max_unpool_row(const Pool2dShape&, int64_t, int64_t, const Half*, const uint8_t*, float*);
template void max_unpool_row(const Pool2dShape&, int64_t, int64_t, const BFloat16*, const uint8_t*, float*);
template void max_pool2d_forward_fast(const Pool2dShape&, const float*, float*, uint8_t*);
template void max_pool2d_forward_fast(const Pool2dShape&, const Half*, Half*, uint8_t*);
template void max_pool2d_forward_fast(const Pool2dShape&, const BFloat16*, BFloat16*, uint8_t*);
template void max_pool2d_backward_fast(const Pool2dShape&, const float*, const uint8_t*, float*);
template void max_pool2d_backward_fast(const Pool2dShape&, const Half*, const uint8_t*, Half*);
template void max_pool2d_backward_fast(const Pool2dShape&, const BFloat16*, const uint8_t*, BFloat16*);

}  // namespace engine::kernels
