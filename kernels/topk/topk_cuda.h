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
/// bytes a row; rows that do not fill sectors of 32 bytes (10 classes) up to twice. Adds integers atomically, which is
/// exact in any order.
template <typename T>
void topk_correct_cuda(const TopkCorrectCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
