#pragma once
// The classification loss, and accuracy.

#include "engine/core/tensor.h"

namespace engine {

struct CrossEntropyOptions {
  double label_smoothing = 0;  // in [0, 1], over all classes as PyTorch's CrossEntropyLoss
  double normalizer = 0;       // the sum over rows is divided by it; 0: the number of rows, which gives the mean
  // On accelerators only, f32, one element each, on the device of the logits:
  Tensor add_to = {};      // defined: the loss is added to it, and it is what comes back
  Tensor grad_scale = {};  // defined: the gradient is multiplied by what it holds (the loss scale) before it is
                           // rounded, and backward() must be seeded with this very tensor
};

/// logits [n, classes], labels [n] i64 -> one f64 value. Fused and numerically safe (log-sum-exp). The tape keeps
/// logits and labels. On accelerators the value is f32, the forward pass computes the gradient, too, the tape keeps
/// just that, and labels are not checked: a row with a wrong one gets NaN. Throws engine::Error for shapes, a smoothing
/// outside [0, 1] or a label outside [0, classes).
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {});

/// How many rows have their label among the k largest logits.
int64_t topk_correct(const Tensor& logits, const Tensor& labels, int64_t k);

/// The same added to correct, i32, one element, on the accelerator that logits and labels are on; nobody waits.
void add_topk_correct(const Tensor& logits, const Tensor& labels, int64_t k, const Tensor& correct);

/// Rows of probabilities: softmax(logits), in double. No gradient.
std::vector<double> softmax_row(const Tensor& logits, int64_t row);

}  // namespace engine
