#include "engine/ops/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/device_path.h"
#include "kernels/common/wide.h"
#include "kernels/scale/scale.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_cuda.h"
#include "kernels/topk/topk.h"
#include "kernels/topk/topk_cuda.h"

namespace engine {
namespace {

void check_labels(const char* op, const Tensor& logits, const Tensor& labels) {
  check_rank(op, "logits", logits, 2);
  ENGINE_CHECK(labels.defined(), "[{}] labels: got an undefined tensor, expected values", op);
  ENGINE_CHECK(labels.dtype() == DType::i64 && labels.shape() == Shape{logits.dim(0)} && labels.is_contiguous(),
               "[{}] labels: got {} {}{}, expected i64 [{}]", op, name_of(labels.dtype()), labels.shape().str(),
               labels.is_contiguous() ? "" : " with gaps", logits.dim(0));
  ENGINE_CHECK(labels.device() == logits.device(), "[{}] labels: got a tensor on {}, expected one on {}", op,
               name_of(labels.device()), name_of(logits.device()));
}

/// grad_logits holds the gradient for an upstream gradient of 1, or of grad_scale.
void device_backward(Gradients& gradients, Tensor& grad_logits, const Tensor& grad_scale) {
  const Tensor grad_loss = gradients.output(0);
  if (grad_scale.defined()) {
    ENGINE_CHECK(grad_loss.raw() == grad_scale.raw(),
                 "[softmax_cross_entropy] backward: got another seed than grad_scale, expected that tensor");
  } else {
    dispatch_device(grad_logits.dtype(), "softmax_cross_entropy", [&]<typename T>() {
      kernels::scale_cuda(grad_logits.data<T>(), grad_loss.data<float>(), grad_logits.data<T>(), grad_logits.numel(),
                          stream_of(grad_logits));
    });
  }
  gradients.set(0, std::move(grad_logits));
}

Tensor device_loss(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options,
                   const kernels::SoftmaxCrossEntropy& spec) {
  Tensor loss = options.add_to.defined() ? options.add_to.detach() : logits.new_empty(Shape{}, DType::f32);
  const bool recorded = should_record({&logits});
  Tensor grad_logits = recorded ? logits.new_empty(logits.shape(), logits.dtype()) : Tensor();
  const Tensor workspace =
      device_workspace(logits, static_cast<int64_t>(kernels::softmax_cross_entropy_workspace_bytes(spec.rows)));
  dispatch_device(logits.dtype(), "softmax_cross_entropy", [&]<typename T>() {
    kernels::softmax_cross_entropy_cuda<T>({.spec = spec,
                                            .logits = logits.data<T>(),
                                            .labels = labels.data<int64_t>(),
                                            .grad_logits = data_or_null<T>(grad_logits),
                                            .grad_scale = data_or_null<float>(options.grad_scale),
                                            .loss = loss.data<float>(),
                                            .accumulate = options.add_to.defined(),
                                            .workspace = workspace.raw()},
                                           stream_of(logits));
  });
  if (!recorded) return loss;
  record("softmax_cross_entropy", {&logits}, {&loss},
         [grad_logits, scale = options.grad_scale](Gradients& gradients) mutable {
           device_backward(gradients, grad_logits, scale);
         });
  return loss;
}

}  // namespace

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  check_labels("softmax_cross_entropy", logits, labels);
  const int64_t rows = logits.dim(0), classes = logits.dim(1);
  ENGINE_CHECK(rows > 0 && classes > 0, "[softmax_cross_entropy] logits: got {}, expected rows and classes",
               logits.shape().str());
  ENGINE_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1,
               "[softmax_cross_entropy] label_smoothing: got {}, expected 0 to 1", options.label_smoothing);
  const double normalizer = options.normalizer > 0 ? options.normalizer : static_cast<double>(rows);
  const kernels::SoftmaxCrossEntropy spec{rows, classes, options.label_smoothing, normalizer};
  if (on_accelerator(logits)) return device_loss(logits, labels, options, spec);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t label = labels.data<int64_t>()[i];
    ENGINE_CHECK(label >= 0 && label < classes, "[softmax_cross_entropy] labels: got {} in row {}, expected 0 to {}",
                 label, i, classes - 1);
  }
  Tensor loss = Tensor::empty(Shape{}, DType::f64);
  dispatch_floating(logits.dtype(), "softmax_cross_entropy", [&]<typename T>() {
    kernels::softmax_cross_entropy_forward_cpu(spec, logits.data<T>(), labels.data<int64_t>(), loss.data<double>());
  });
  if (!should_record({&logits})) return loss;
  record("softmax_cross_entropy", {&logits}, {&loss},
         [x = logits.detach(), labels = labels.detach(), spec](Gradients& gradients) mutable {
           const double grad_loss = gradients.output(0).item();
           Tensor grad_x = x.owns_alone() ? x : gradients.target(0, x.shape(), x.dtype());
           dispatch_floating(x.dtype(), "softmax_cross_entropy", [&]<typename T>() {
             kernels::softmax_cross_entropy_backward_cpu(spec, x.data<T>(), labels.data<int64_t>(), grad_loss,
                                                         grad_x.data<T>());
           });
           gradients.set(0, std::move(grad_x));
         });
  return loss;
}

void add_topk_correct(const Tensor& logits, const Tensor& labels, int64_t k, const Tensor& correct) {
  check_labels("topk_correct", logits, labels);
  ENGINE_CHECK(on_accelerator(logits) && correct.device() == logits.device() && correct.numel() == 1,
               "[topk_correct] correct: got {} on {}, expected one element beside the logits on an accelerator",
               correct.shape().str(), name_of(correct.device()));
  dispatch_device(logits.dtype(), "topk_correct", [&]<typename T>() {
    kernels::topk_correct_cuda<T>({.logits = logits.data<T>(),
                                   .labels = labels.data<int64_t>(),
                                   .rows = logits.dim(0),
                                   .classes = logits.dim(1),
                                   .k = k,
                                   .correct = correct.data<int32_t>()},
                                  stream_of(logits));
  });
}

int64_t topk_correct(const Tensor& logits, const Tensor& labels, int64_t k) {
  check_labels("topk_correct", logits, labels);
  if (on_accelerator(logits)) {
    const Tensor correct = Tensor::zeros(Shape{}, DType::i32, MemoryCategory::workspace, logits.device());
    add_topk_correct(logits, labels, k, correct);
    return static_cast<int64_t>(correct.item());
  }
  return dispatch_floating(logits.dtype(), "topk_correct", [&]<typename T>() {
    return kernels::topk_correct_cpu(logits.data<T>(), labels.data<int64_t>(), logits.dim(0), logits.dim(1), k);
  });
}

std::vector<double> softmax_row(const Tensor& logits, int64_t row) {
  check_rank("softmax_row", "logits", logits, 2);
  const int64_t classes = logits.dim(1);
  ENGINE_CHECK(row >= 0 && row < logits.dim(0) && classes > 0, "[softmax_row] row: got {}, expected one of {}", row,
               logits.shape().str());
  std::vector<double> values(static_cast<size_t>(classes));
  dispatch_floating(logits.dtype(), "softmax_row", [&]<typename T>() {
    const T* first = logits.data<T>() + row * classes;
    std::transform(first, first + classes, values.begin(),
                   [](T value) { return static_cast<double>(static_cast<kernels::Wide<T>>(value)); });
  });
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value - largest);
  for (double& value : values) value /= sum;
  return values;
}

}  // namespace engine
