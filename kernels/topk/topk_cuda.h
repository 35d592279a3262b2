#pragma once
// topk.h's count on the device. T: float, Half, BFloat16.

#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

template <typename T>
struct TopkCorrectCuda {
  const T* logits = nullptr;        // [rows, classes]
  const int64_t* labels = nullptr;  // [rows], in device memory
  int64_t rows = 0;
  int64_t classes = 0;
  int64_t k = 1;
  int32_t* correct = nullptr;  // one value in device memory
};

/// *correct += the number of rows whose label is among the k highest, as topk.h ranks them. Moves the logits once and 8
/// bytes a row; the label's logit is read again. A warp takes a row, so what is less than a sector of 32 bytes moves a
/// whole one: a label, and rows of a few classes (0.24 of what is moved is used with 10 halves a row). Adds integers
/// atomically, which is exact in any order.
template <typename T>
void topk_correct_cuda(const TopkCorrectCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
