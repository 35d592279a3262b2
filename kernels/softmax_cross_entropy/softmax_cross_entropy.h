#pragma once
// Cross entropy of softmax(logits) against class labels, with label smoothing as PyTorch's CrossEntropyLoss has it
// (Szegedy et al., "Rethinking the Inception Architecture", 2016: smoothed over all classes, the target among them):
//   loss_i = (1 - s) * -log p[label] + s / classes * sum_k -log p[k]
// Log-sum-exp with the maximum taken out, in double. s = 0 is plain cross entropy bit for bit (then a logit of -inf in
// another class is harmless). float, double, Half and BFloat16.

#include <cstdint>

namespace engine::kernels {

struct SoftmaxCrossEntropy {
  int64_t rows = 0;
  int64_t classes = 0;
  double label_smoothing = 0;  // s, in [0, 1]
  double normalizer = 1;       // the sum over rows is divided by it: the number of rows for the mean
};

/// loss: one value, overwritten with sum_i loss_i / normalizer. logits: [rows, classes]; labels: [rows]. The backward
/// pass needs logits and labels again and nothing else. Throws std::invalid_argument, before anything is written, where
/// a label is not in [0, classes).
template <typename T>
void softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropy& spec, const T* logits, const int64_t* labels,
                                       double* loss);

/// grad_logits = grad_loss / normalizer * (softmax(logits) - smoothed target): [rows, classes], overwritten; may be
/// logits. Throws as the forward pass does.
template <typename T>
void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropy& spec, const T* logits, const int64_t* labels,
                                        double grad_loss, T* grad_logits);

}  // namespace engine::kernels
