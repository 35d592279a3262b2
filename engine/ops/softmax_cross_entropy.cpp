#include "engine/ops/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/topk/topk.h"

namespace engine {
namespace {

void check_labels(const char* op, const Tensor& logits, const Tensor& labels) {
  check_rank(op, "logits", logits, 2);
  ENGINE_CHECK(labels.defined(), "[{}] labels: got an undefined tensor, expected values", op);
  ENGINE_CHECK(labels.dtype() == DType::i64 && labels.shape() == Shape{logits.dim(0)} && labels.is_contiguous(),
               "[{}] labels: got {} {}{}, expected i64 [{}]", op, name_of(labels.dtype()), labels.shape().str(),
               labels.is_contiguous() ? "" : " with gaps", logits.dim(0));
}

}  // namespace

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  check_labels("softmax_cross_entropy", logits, labels);
  const int64_t rows = logits.dim(0), classes = logits.dim(1);
  ENGINE_CHECK(rows > 0 && classes > 0, "[softmax_cross_entropy] logits: got {}, expected rows and classes",
               logits.shape().str());
  ENGINE_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1,
               "[softmax_cross_entropy] label_smoothing: got {}, expected 0 to 1", options.label_smoothing);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t label = labels.data<int64_t>()[i];
    ENGINE_CHECK(label >= 0 && label < classes, "[softmax_cross_entropy] labels: got {} in row {}, expected 0 to {}",
                 label, i, classes - 1);
  }
  const double normalizer = options.normalizer > 0 ? options.normalizer : static_cast<double>(rows);
  const kernels::SoftmaxCrossEntropy spec{rows, classes, options.label_smoothing, normalizer};
  Tensor loss = Tensor::empty(Shape{}, DType::f64);
  dispatch_float(logits.dtype(), "softmax_cross_entropy", [&]<typename T>() {
    kernels::softmax_cross_entropy_forward_cpu(spec, logits.data<T>(), labels.data<int64_t>(), loss.data<double>());
  });
  if (!should_record({&logits})) return loss;
  record("softmax_cross_entropy", {&logits}, {&loss},
         [x = logits.detach(), labels = labels.detach(), spec](Gradients& gradients) mutable {
           const double grad_loss = gradients.output(0).item();
           Tensor grad_x = x.owns_alone() ? x : gradients.target(0, x.shape(), x.dtype());
           dispatch_float(x.dtype(), "softmax_cross_entropy", [&]<typename T>() {
             kernels::softmax_cross_entropy_backward_cpu(spec, x.data<T>(), labels.data<int64_t>(), grad_loss,
                                                         grad_x.data<T>());
           });
           gradients.set(0, std::move(grad_x));
         });
  return loss;
}

int64_t topk_correct(const Tensor& logits, const Tensor& labels, int64_t k) {
  check_labels("topk_correct", logits, labels);
  return dispatch_float(logits.dtype(), "topk_correct", [&]<typename T>() {
    return kernels::topk_correct_cpu(logits.data<T>(), labels.data<int64_t>(), logits.dim(0), logits.dim(1), k);
  });
}

std::vector<double> softmax_row(const Tensor& logits, int64_t row) {
  check_rank("softmax_row", "logits", logits, 2);
  const int64_t classes = logits.dim(1);
  ENGINE_CHECK(row >= 0 && row < logits.dim(0) && classes > 0, "[softmax_row] row: got {}, expected one of {}", row,
               logits.shape().str());
  std::vector<double> values(static_cast<size_t>(classes));
  dispatch_float(logits.dtype(), "softmax_row", [&]<typename T>() {
    const T* first = logits.data<T>() + row * classes;
    std::copy(first, first + classes, values.begin());
  });
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value - largest);
  for (double& value : values) value /= sum;
  return values;
}

}  // namespace engine
