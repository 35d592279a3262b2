#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace engine::kernels {

/// Two-dimensional convolution (a cross-correlation, as in PyTorch's conv2d), in its three directions.
///
/// Images are NHWC: x is [n, h, w, c] and y is [n, out_h(), out_w(), k]. Filters are KRSC: [k, r, s, c / groups].
/// Output channel q belongs to group q / (k / groups) and reads the input channels of that group only.
///   y[b, i, j, q] = bias[q] + sum over (u, v, e) of weight[q, u, v, e]
///                   * x[b, i * stride_h - pad_h + u * dilation_h, j * stride_w - pad_w + v * dilation_w, e of the
///                   group]
/// with x zero outside of the image.
struct Conv2dShape {
  int64_t n = 1, h = 1, w = 1, c = 1;
  int64_t k = 1, r = 1, s = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;  // on both sides
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;  // divides c and k

  int64_t out_h() const { return (h + 2 * pad_h - dilation_h * (r - 1) - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + 2 * pad_w - dilation_w * (s - 1) - 1) / stride_w + 1; }
  int64_t x_numel() const { return n * h * w * c; }
  int64_t y_numel() const { return n * out_h() * out_w() * k; }
  int64_t weight_numel() const { return k * r * s * (c / groups); }
  int64_t macs() const { return n * out_h() * out_w() * k * r * s * (c / groups); }  // padding counted, each direction
  /// Extents positive, padding not negative, groups a divisor of c and k, and an output of at least one pixel.
  bool valid() const;
  /// "n16 56x56x64 -> k64 3x3 stride 1x1 pad 1x1", dilation and groups where they are not 1.
  std::string str() const;
  bool operator==(const Conv2dShape&) const = default;

  /// Throws std::invalid_argument unless valid().
  void require_valid() const;
};

enum class ConvDirection { forward, backward_data, backward_weights };

// All functions below overwrite their results, need no alignment, and forbid that a result overlaps an input. They
// throw std::invalid_argument for a shape that is not valid(). They may be called by several threads at once.

/// Plain reference: loops in the order of the definition, sums kept in double. T is float or double.
template <typename T>
void conv2d_forward_cpu(const T* x, const T* weight, const T* bias, T* y,
                        const Conv2dShape& shape);  // bias may be null
template <typename T>
void conv2d_backward_data_cpu(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape);
template <typename T>
void conv2d_backward_weights_cpu(const T* x, const T* grad_y, T* grad_weight, T* grad_bias,  // grad_bias may be null
                                 const Conv2dShape& shape);

/// Fast path. conv2d_select (conv2d_select.h) says which algorithm a shape and direction takes. Repeatable bit for bit
/// with the same number of OpenMP threads. T is float, Half or BFloat16; 16-bit types are multiplied as floats, or as
/// BFloat16 where the processor can, summed in float and rounded once.
template <typename T>
void conv2d_forward_fast(const T* x, const T* weight, const std::type_identity_t<T>* bias, T* y,
                         const Conv2dShape& shape);
template <typename T>
void conv2d_backward_data_fast(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape);
template <typename T>
void conv2d_backward_weights_fast(const T* x, const T* grad_y, T* grad_weight, std::type_identity_t<T>* grad_bias,
                                  const Conv2dShape& shape);

/// What the fast path runs for this shape: "gemm" or "winograd" for the project's own algorithms, else oneDNN's
/// implementation name ("jit:avx512_core", ...) or "reference" for the plain loops above. May create and cache oneDNN's
/// primitive, so it costs what a first call costs. T as above; 16-bit tensors may be taken through floats by it.
template <typename T = float>
std::string conv2d_implementation(const Conv2dShape& shape, ConvDirection direction);

/// How often the fast path of this process has gone to the plain reference, or from BFloat16 to floats, since oneDNN
/// had no primitive for a shape (counted per call), all directions together.
int64_t conv2d_fallbacks();

}  // namespace engine::kernels
