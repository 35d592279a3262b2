#pragma once
// The operands of convolutions as matrix products (conv2d_direct_cuda.h), one of them never stored: its elements are
// found in the image when they are asked for.

#include <cstdint>

#include "kernels/common/device_types.h"
#include "kernels/common/fast_divisor.h"
#include "kernels/conv2d/conv2d.h"

namespace engine::kernels::direct {

constexpr int kNowhere = -(1 << 29);

/// A shape as kernels want it.
struct Geometry {
  int h, w, c, k, out_h, out_w, c_group, k_group, taps_c, taps_k, groups;
  int s, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int pixels_in, pixels_out;
  FastDivisor by_in, by_w, by_out, by_out_w, by_filter_row, by_c_group, by_filter_k, by_k_group, by_stride_h,
      by_stride_w;

  explicit Geometry(const Conv2dShape& p)
      : h(narrow(p.h)),
        w(narrow(p.w)),
        c(narrow(p.c)),
        k(narrow(p.k)),
        out_h(narrow(p.out_h())),
        out_w(narrow(p.out_w())),
        c_group(c / narrow(p.groups)),
        k_group(k / narrow(p.groups)),
        taps_c(narrow(p.r * p.s) * c_group),
        taps_k(narrow(p.r * p.s) * k_group),
        groups(narrow(p.groups)),
        s(narrow(p.s)),
        stride_h(narrow(p.stride_h)),
        stride_w(narrow(p.stride_w)),
        pad_h(narrow(p.pad_h)),
        pad_w(narrow(p.pad_w)),
        dilation_h(narrow(p.dilation_h)),
        dilation_w(narrow(p.dilation_w)),
        pixels_in(narrow(p.n) * h * w),
        pixels_out(narrow(p.n) * out_h * out_w),
        by_in(divisor(h * w)),
        by_w(divisor(w)),
        by_out(divisor(out_h * out_w)),
        by_out_w(divisor(out_w)),
        by_filter_row(divisor(s * c_group)),
        by_c_group(divisor(c_group)),
        by_filter_k(divisor(s * k_group)),
        by_k_group(divisor(k_group)),
        by_stride_h(divisor(stride_h)),
        by_stride_w(divisor(stride_w)) {}

 private:
  static int narrow(int64_t value) { return static_cast<int>(value); }
  static FastDivisor divisor(int value) { return FastDivisor(static_cast<uint32_t>(value)); }
};

/// Where a filter's corner lies for an output pixel, or an input pixel; nowhere behind the last one.
struct Pixel {
  int64_t image;  // first pixel of its image
  int row, column;
};

/// A value of a filter: how far from the corner, and which channel of the group.
struct Tap {
  int down, right, channel;
};

__device__ inline Pixel output_pixel(const Geometry& g, int index) {
  if (index >= g.pixels_out) return {0, kNowhere, kNowhere};
  const int image = g.by_out.quotient(index), rest = index - image * g.by_out.divisor();
  const int i = g.by_out_w.quotient(rest), j = rest - i * g.out_w;
  return {int64_t{image} * g.h * g.w, i * g.stride_h - g.pad_h, j * g.stride_w - g.pad_w};
}

__device__ inline Tap tap_of(const Geometry& g, int index) {
  if (index >= g.taps_c) return {kNowhere, kNowhere, 0};
  const int u = g.by_filter_row.quotient(index), rest = index - u * g.by_filter_row.divisor();
  const int v = g.by_c_group.quotient(rest);
  return {u * g.dilation_h, v * g.dilation_w, rest - v * g.c_group};
}

/// A group's part of x as pixels under the filter; x points to the group's first channel.
template <typename T>
__device__ inline float under_filter(const Geometry& g, const T* x, const Pixel& corner, const Tap& tap) {
  const int i = corner.row + tap.down, j = corner.column + tap.right;
  if (i < 0 || i >= g.h || j < 0 || j >= g.w) return 0;
  return to_float(x[(corner.image + int64_t{i} * g.w + j) * g.c + tap.channel]);
}

// The operands of a product: at(outer, inner), where outer(i) is row i or column i and inner(i) the i-th term of the
// sum; zero outside. kInnerFirst: neighbours in memory are neighbours in the sum.

template <typename T>
struct PixelsByTaps {
  static constexpr bool kInnerFirst = true;
  const Geometry& g;
  const T* x;
  __device__ Pixel outer(int index) const { return output_pixel(g, index); }
  __device__ Tap inner(int index) const { return tap_of(g, index); }
  __device__ float at(const Pixel& pixel, const Tap& tap) const { return under_filter(g, x, pixel, tap); }
};

template <typename T>
struct TapsByPixels {
  static constexpr bool kInnerFirst = false;
  const Geometry& g;
  const T* x;
  __device__ Tap outer(int index) const { return tap_of(g, index); }
  __device__ Pixel inner(int index) const { return output_pixel(g, index); }
  __device__ float at(const Tap& tap, const Pixel& pixel) const { return under_filter(g, x, pixel, tap); }
};

/// weight [k_group, taps_c] of a group.
template <typename T>
struct FiltersByTaps {
  static constexpr bool kInnerFirst = true;
  const Geometry& g;
  const T* weight;
  __device__ int outer(int index) const { return index; }
  __device__ int inner(int index) const { return index; }
  __device__ float at(int filter, int tap) const {
    return filter < g.k_group && tap < g.taps_c ? to_float(weight[int64_t{filter} * g.taps_c + tap]) : 0.0F;
  }
};

/// grad_y [pixels_out, k] by the filters of a group.
template <typename T>
struct FiltersByPixels {
  static constexpr bool kInnerFirst = false;
  const Geometry& g;
  const T* grad_y;
  __device__ int outer(int index) const { return index; }
  __device__ int inner(int index) const { return index; }
  __device__ float at(int filter, int pixel) const {
    return filter < g.k_group && pixel < g.pixels_out ? to_float(grad_y[int64_t{pixel} * g.k + filter]) : 0.0F;
  }
};

/// For each input pixel the gradients of the output pixels whose filters cover it: taps are (u, v, filter).
template <typename T>
struct InputsByTaps {
  static constexpr bool kInnerFirst = true;
  const Geometry& g;
  const T* grad_y;
  __device__ Pixel outer(int index) const {
    if (index >= g.pixels_in) return {0, kNowhere, kNowhere};
    const int image = g.by_in.quotient(index), rest = index - image * g.by_in.divisor();
    const int i = g.by_w.quotient(rest), j = rest - i * g.w;
    return {int64_t{image} * g.out_h * g.out_w, i + g.pad_h, j + g.pad_w};
  }
  __device__ Tap inner(int index) const {
    if (index >= g.taps_k) return {-kNowhere, -kNowhere, 0};
    const int u = g.by_filter_k.quotient(index), rest = index - u * g.by_filter_k.divisor();
    const int v = g.by_k_group.quotient(rest);
    return {u * g.dilation_h, v * g.dilation_w, rest - v * g.k_group};
  }
  __device__ float at(const Pixel& pixel, const Tap& tap) const {
    const int above = pixel.row - tap.down, before = pixel.column - tap.right;
    if (above < 0 || before < 0) return 0;
    const int i = g.by_stride_h.quotient(above), j = g.by_stride_w.quotient(before);
    if (i * g.stride_h != above || j * g.stride_w != before || i >= g.out_h || j >= g.out_w) return 0;
    return to_float(grad_y[(pixel.image + int64_t{i} * g.out_w + j) * g.k + tap.channel]);
  }
};

/// weight [k_group, r, s, c_group] of a group: a column for each channel, summed over (u, v, filter).
template <typename T>
struct ChannelsByTaps {
  static constexpr bool kInnerFirst = false;
  const Geometry& g;
  const T* weight;
  __device__ int outer(int index) const { return index; }
  __device__ int64_t inner(int index) const {
    if (index >= g.taps_k) return -1;
    const int place = g.by_k_group.quotient(index), filter = index - place * g.k_group;
    return int64_t{filter} * g.taps_c + place * g.c_group;
  }
  __device__ float at(int channel, int64_t row) const {
    return channel < g.c_group && row >= 0 ? to_float(weight[row + channel]) : 0.0F;
  }
};

}  // namespace engine::kernels::direct
