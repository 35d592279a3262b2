#pragma once
// Top-k accuracy.

#include <cstdint>

namespace engine::kernels {

/// Number of rows of logits ([rows, classes]) whose label ([rows]) is among the k highest. A class ranks above the
/// label where its logit is greater, or equal and its index lower, or NaN; a label whose own logit is NaN is never a
/// hit. A label outside [0, classes) is never a hit.
template <typename T>
int64_t topk_correct_cpu(const T* logits, const int64_t* labels, int64_t rows, int64_t classes, int64_t k);

}  // namespace engine::kernels
