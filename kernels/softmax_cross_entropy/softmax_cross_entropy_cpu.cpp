#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/common/half.h"
#include "kernels/common/wide.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

namespace engine::kernels {
namespace {

void require_labels(const SoftmaxCrossEntropy& spec, const int64_t* labels) {
  for (int64_t row = 0; row < spec.rows; ++row) {
    if (labels[row] >= 0 && labels[row] < spec.classes) continue;
    throw std::invalid_argument("softmax_cross_entropy: label: got " + std::to_string(labels[row]) + " in row " +
                                std::to_string(row) + ", expected 0 to " + std::to_string(spec.classes - 1));
  }
}

template <typename T>
double value_of(T stored) {
  return static_cast<double>(static_cast<Wide<T>>(stored));
}

struct RowSums {
  double max, exponentials;  // sum of exp(logit - max)
};

template <typename T>
RowSums row_sums(const T* logits, int64_t classes) {
  const auto below = [](T a, T b) { return value_of(a) < value_of(b); };
  RowSums sums{value_of(*std::max_element(logits, logits + classes, below)), 0};
  for (int64_t k = 0; k < classes; ++k) sums.exponentials += std::exp(value_of(logits[k]) - sums.max);
  return sums;
}

}  // namespace

template <typename T>
void softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropy& spec, const T* logits, const int64_t* labels,
                                       double* loss) {
  require_labels(spec, labels);
  double total = 0;
  for (int64_t row = 0; row < spec.rows; ++row) {
    const T* values = logits + row * spec.classes;
    const RowSums sums = row_sums(values, spec.classes);
    const double log_sum = std::log(sums.exponentials);
    const auto cost = [&](int64_t k) { return log_sum - (value_of(values[k]) - sums.max); };
    // Apart, so that an infinite cost of another class does not meet a weight of 0.
    if (spec.label_smoothing == 0) {
      total += cost(labels[row]);
      continue;
    }
    double uniform = 0;
    for (int64_t k = 0; k < spec.classes; ++k) uniform += cost(k);
    total += (1 - spec.label_smoothing) * cost(labels[row]) +
             spec.label_smoothing / static_cast<double>(spec.classes) * uniform;
  }
  *loss = total / spec.normalizer;
}

template <typename T>
void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropy& spec, const T* logits, const int64_t* labels,
                                        double grad_loss, T* grad_logits) {
  require_labels(spec, labels);
  const double scale = grad_loss / spec.normalizer;
  const double uniform = spec.label_smoothing / static_cast<double>(spec.classes);
  for (int64_t row = 0; row < spec.rows; ++row) {
    const T* values = logits + row * spec.classes;
    T* grad = grad_logits + row * spec.classes;
    const RowSums sums = row_sums(values, spec.classes);
    for (int64_t k = 0; k < spec.classes; ++k) {
      const double target = uniform + (k == labels[row] ? 1 - spec.label_smoothing : 0);
      const double softmax = std::exp(value_of(values[k]) - sums.max) / sums.exponentials;
      grad[k] = T(static_cast<Wide<T>>(scale * (softmax - target)));
    }
  }
}

template void softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropy&, const float*, const int64_t*, double*);
template void softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropy&, const double*, const int64_t*, double*);
template void softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropy&, const Half*, const int64_t*, double*);
template void softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropy&, const BFloat16*, const int64_t*, double*);
template void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropy&, const float*, const int64_t*, double,
                                                 float*);
template void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropy&, const double*, const int64_t*, double,
                                                 double*);
template void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropy&, const Half*, const int64_t*, double,
                                                 Half*);
template void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropy&, const BFloat16*, const int64_t*, double,
                                                 BFloat16*);

}  // namespace engine::kernels
