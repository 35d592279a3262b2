#pragma once
// What the pooling kernels share: threads over pictures, windows over pixels.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "kernels/common/fast_divisor.h"
#include "kernels/common/launch.h"
#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

inline constexpr int kPoolThreads = 256;
inline constexpr int64_t kPoolPictures = 2048;  // side by side in a grid, enough to fill a GPU; blocks go on from there

/// From begin up to end, along one axis.
struct Extent {
  int begin, end;
};

/// One axis of a window that moves over a picture.
class PoolAxis {
 public:
  PoolAxis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding)
      : in_(static_cast<int>(in)),
        out_(static_cast<int>(out)),
        kernel_(static_cast<int>(kernel)),
        padding_(static_cast<int>(padding)),
        stride_(static_cast<uint32_t>(stride)) {}

  __host__ __device__ int in() const { return in_; }
  __host__ __device__ int out() const { return out_; }
  __host__ __device__ int kernel() const { return kernel_; }
  /// Where an output's window begins; negative in the padding.
  __device__ int begin(int out) const { return out * stride_.divisor() - padding_; }
  /// The part of an output's window that lies inside the picture.
  __device__ Extent window(int out) const {
    const int first = begin(out), last = first + kernel_;
    return {first > 0 ? first : 0, last < in_ ? last : in_};
  }
  /// The outputs whose windows hold an input.
  __device__ Extent windows_of(int in) const {
    const int last = stride_.quotient(in + padding_) + 1, before = in + padding_ - kernel_;
    return {before < 0 ? 0 : stride_.quotient(before) + 1, last < out_ ? last : out_};
  }

 private:
  int in_, out_, kernel_, padding_;
  FastDivisor stride_;
};

/// A pooling over pictures whose threads take `width` neighbouring channels of a pixel each.
struct PoolPlan {
  PoolAxis rows, columns;
  FastDivisor groups, in_columns, out_columns;
  int64_t pictures;
  int channels;
  int in_size, out_size;  // elements of a picture

  /// Throws std::length_error where a picture has 2^31 elements or more.
  PoolPlan(const Pool2dShape& s, int width)
      : rows(s.h, s.out_h(), s.kernel_h, s.stride_h, s.pad_h),
        columns(s.w, s.out_w(), s.kernel_w, s.stride_w, s.pad_w),
        groups(at_least_one(s.c / width)),
        in_columns(at_least_one(s.w)),
        out_columns(at_least_one(s.out_w())),
        pictures(s.n),
        channels(static_cast<int>(s.c)),
        in_size(static_cast<int>(s.h * s.w * s.c)),
        out_size(static_cast<int>(s.out_h() * s.out_w() * s.c)) {
    if (std::max(s.h * s.w * s.c, s.out_h() * s.out_w() * s.c) > std::numeric_limits<int32_t>::max()) {
      throw std::length_error("a picture of 2^31 elements or more");
    }
  }

  /// Blocks side by side over a picture's threads, and over pictures. Bytes of an element of the input, and of what
  /// goes with one of the output.
  LaunchShape shape(int threads, int64_t in_bytes, int64_t out_bytes) const {
    return {.grid = {blocks_for(threads, kPoolThreads), static_cast<unsigned>(std::min(pictures, kPoolPictures))},
            .block = kPoolThreads,
            .bytes = pictures * (in_size * in_bytes + out_size * out_bytes)};
  }

 private:
  static constexpr uint32_t at_least_one(int64_t value) { return static_cast<uint32_t>(std::max<int64_t>(value, 1)); }
};

/// A thread's pixel and the first of its channels.
struct PoolItem {
  int row, column, channel;
};

/// `columns` as the input or the output has them.
__device__ inline PoolItem pool_item(int thread, const FastDivisor& groups, const FastDivisor& columns, int width) {
  const int pixel = groups.quotient(thread), row = columns.quotient(pixel);
  return {row, pixel - row * columns.divisor(), (thread - pixel * groups.divisor()) * width};
}

}  // namespace engine::kernels
