#pragma once
// Fully connected layer and matrix product.

#include "engine/core/tensor.h"

namespace engine {

/// x [n, in], weight [out, in], bias [out] or undefined -> x weight^T + bias, [n, out]. The tape keeps x and weight.
/// Throws engine::Error "[linear] ..." for shapes that do not fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor());

/// a [m, k], b [k, n] -> a b, [m, n]. The tape keeps both. Throws engine::Error "[matmul] ...".
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace engine
