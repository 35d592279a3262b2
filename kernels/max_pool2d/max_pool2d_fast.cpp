#include <algorithm>

#include "kernels/common/parallel.h"
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

void add_where_won(const float* grad_y, const uint8_t* index, int32_t place, float* grad_x, int64_t c) {
#pragma omp simd
  for (int64_t i = 0; i < c; ++i) grad_x[i] += index[i] == place ? grad_y[i] : 0.0F;
}

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

void max_unpool_row(const Pool2dShape& shape, int64_t n, int64_t h, const float* grad_y, const uint8_t* index,
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

void max_pool2d_forward_fast(const Pool2dShape& shape, const float* x, float* y, uint8_t* index) {
  const int64_t out_h = shape.out_h(), out_row = shape.out_w() * shape.c, in_row = shape.w * shape.c;
  parallel_for(shape.n * out_h, std::max<int64_t>(kGrain / (out_row * shape.kernel_h), 1),
               [&, x, y, index](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = i % out_h * shape.stride_h - shape.pad_h;
                   WindowRows rows;
                   for (int64_t r = 0; r < shape.kernel_h; ++r) {
                     const int64_t h = first + r;
                     rows[static_cast<size_t>(r)] =
                         h < 0 || h >= shape.h ? nullptr : x + (i / out_h * shape.h + h) * in_row;
                   }
                   max_pool_row(shape, rows, y + i * out_row, index == nullptr ? nullptr : index + i * out_row);
                 }
               });
}

void max_pool2d_backward_fast(const Pool2dShape& shape, const float* grad_y, const uint8_t* index, float* grad_x) {
  parallel_for(shape.n * shape.h, std::max<int64_t>(kGrain / (shape.w * shape.c), 1),
               [&, grad_y, index, grad_x](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   max_unpool_row(shape, i / shape.h, i % shape.h, grad_y, index, grad_x + i * shape.w * shape.c);
                 }
               });
}

}  // namespace engine::kernels
