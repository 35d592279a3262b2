#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace engine::kernels {

/// Row-major matrix product c[m, n] = op(a)[m, k] * op(b)[k, n].
struct MatmulShape {
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false;  // a is stored [k, m]
  bool transpose_b = false;  // b is stored [n, k]
  bool accumulate = false;   // c += in place of c =
  int64_t macs() const { return m * n * k; }
  bool operator==(const MatmulShape&) const = default;
};

/// Matrices are dense, need no alignment, and c may not overlap a or b. m, n or k may be zero: a product over k == 0
/// writes zeros (or leaves c when accumulating). Negative extents throw std::invalid_argument. Threads may call at
/// once.

/// Plain reference, sums kept in double. T is float or double.
template <typename T>
void matmul_cpu(const T* a, const T* b, T* c, const MatmulShape& shape);

/// Fast path (oneDNN's matmul primitive). Repeatable bit for bit with the same number of OpenMP threads. T, here and
/// below, is float, Half or BFloat16; 16-bit types are multiplied as floats, or as BFloat16 where the processor can,
/// summed in float and rounded once.
template <typename T>
void matmul_onednn(const T* a, const T* b, T* c, const MatmulShape& shape);

/// oneDNN's implementation name for the shape, or "reference".
std::string matmul_implementation(const MatmulShape& shape);

/// Fully connected layer: x[batch, in], weight[out, in], bias[out], y[batch, out].
struct LinearShape {
  int64_t batch = 1, in = 1, out = 1;
  bool operator==(const LinearShape&) const = default;
};

/// y = x * weight^T + bias; bias may be null. Overwrites y.
template <typename T>
void linear_forward_cpu(const T* x, const T* weight, const T* bias, T* y, const LinearShape& shape);
template <typename T>
void linear_forward_onednn(const T* x, const T* weight, const std::type_identity_t<T>* bias, T* y,
                           const LinearShape& shape);

/// grad_x = grad_y * weight. Overwrites grad_x.
template <typename T>
void linear_backward_data_cpu(const T* grad_y, const T* weight, T* grad_x, const LinearShape& shape);
template <typename T>
void linear_backward_data_onednn(const T* grad_y, const T* weight, T* grad_x, const LinearShape& shape);

/// grad_weight = grad_y^T * x and grad_bias = column sums of grad_y; grad_bias may be null. Overwrites both.
template <typename T>
void linear_backward_weights_cpu(const T* x, const T* grad_y, T* grad_weight, T* grad_bias, const LinearShape& shape);
template <typename T>
void linear_backward_weights_onednn(const T* x, const T* grad_y, T* grad_weight, std::type_identity_t<T>* grad_bias,
                                    const LinearShape& shape);

/// sums[columns] = sum over rows of x[rows, columns], accumulated in double; overwrites. T is float, double, Half
/// or BFloat16.
/// Vectorised and threaded over columns, so the result does not depend on the number of threads.
template <typename T>
void column_sum(const T* x, T* sums, int64_t rows, int64_t columns);

/// Calls of the fast path that went to the plain reference since oneDNN had no primitive for a shape.
int64_t matmul_fallbacks();

}  // namespace engine::kernels
