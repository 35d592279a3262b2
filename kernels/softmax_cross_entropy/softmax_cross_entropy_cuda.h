#pragma once
// softmax_cross_entropy.h's loss and gradient on the device, in one pass over the logits. T: float, Half, BFloat16, the
// logits' and gradient's type; all else in float: maximum taken out, the rows' losses summed in double, in a fixed
// order. So the same bits from run to run. Infinite and NaN logits give what the reference gives.

#include <cstddef>
#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

namespace engine::kernels {

template <typename T>
struct SoftmaxCrossEntropyCuda {
  SoftmaxCrossEntropy spec;
  const T* logits = nullptr;          // [rows, classes]
  const int64_t* labels = nullptr;    // [rows], in device memory
  T* grad_logits = nullptr;           // [rows, classes], overwritten; may be logits; null in evaluation
  const float* grad_scale = nullptr;  // one value in device memory that multiplies the gradient; null: 1
  float* loss = nullptr;              // one value in device memory
  bool accumulate = false;            // loss += instead of loss =
  void* workspace = nullptr;          // softmax_cross_entropy_workspace_bytes(rows)
};

size_t softmax_cross_entropy_workspace_bytes(int64_t rows);

/// loss = (or +=) sum_i loss_i / normalizer, grad_logits = *grad_scale / normalizer * (softmax - smoothed target). A
/// label outside [0, classes) cannot be refused here: its row's loss and gradient are NaN. No rows: the loss is 0.
/// Moves the logits once, the gradient once and 16 bytes a row; rows of more than 1024 classes are read a second time
/// for their gradient, out of the caches. Up to 32 classes whole runs of rows are moved, and up to 128 rows of them in
/// one launch with 8 bytes a row; what falls short of full sectors of 32 bytes there is the few scalars (the loss, the
/// scale), which weigh where there are but a few rows: 0.85 of what is moved is used with 4 rows of 10 classes. From 33
/// classes on a warp takes a row: its label and its loss are 12 bytes of two sectors, and rows that do not begin with
/// a sector share theirs with their neighbours, from the caches.
template <typename T>
void softmax_cross_entropy_cuda(const SoftmaxCrossEntropyCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
