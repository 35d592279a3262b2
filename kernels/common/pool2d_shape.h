#pragma once
// Geometry that the pooling kernels share. Output extents round down, as PyTorch's do with ceil_mode off.

#include <cstdint>

namespace engine::kernels {

/// Number of windows along an axis; padding counts on both ends.
constexpr int64_t pooled_extent(int64_t extent, int64_t kernel, int64_t stride, int64_t padding) {
  return (extent + 2 * padding - kernel) / stride + 1;
}

/// An NHWC input and the window that moves over it. Padding is at most half the kernel, so that every window holds at
/// least one element of the input.
struct Pool2dShape {
  int64_t n = 0, h = 0, w = 0, c = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;

  constexpr int64_t out_h() const { return pooled_extent(h, kernel_h, stride_h, pad_h); }
  constexpr int64_t out_w() const { return pooled_extent(w, kernel_w, stride_w, pad_w); }
};

}  // namespace engine::kernels
