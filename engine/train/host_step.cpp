#include "engine/train/host_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/autograd/backward.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "kernels/norm/norm.h"

namespace engine {

HostStep::HostStep(const TrainedParts& parts, const TrainStepOptions& options)
    : parts_(parts), options_(options), buffers_(parts.model->buffers()), kept_buffers_(buffers_) {
  for (NamedTensor& buffer : kept_buffers_) buffer.tensor = buffer.tensor.clone(MemoryCategory::workspace);
}

void HostStep::add(const Batch& batch) {
  if (!started_) {
    started_ = true;
    current_ = {};
    suspect_found_ = false;
    keep_buffers();
    parts_.parameters->clear_gradients();
  }
  if (batch.samples.empty()) return;
  const Tensor logits = (*parts_.model)(batch.images);
  const Tensor loss = softmax_cross_entropy(
      logits, batch.labels,
      {.label_smoothing = options_.label_smoothing, .normalizer = static_cast<double>(batch.global_samples)});
  current_.loss += loss.item();
  if (!suspect_found_) current_.suspect = batch;
  suspect_found_ = suspect_found_ || !std::isfinite(loss.item());
  current_.images += batch.images.dim(0);
  current_.samples.insert(current_.samples.end(), batch.samples.begin(), batch.samples.end());
  backward(loss);
}

StepOutcome HostStep::finish(double lr) {
  started_ = false;
  FlatParameters& parameters = *parts_.parameters;
  parameters.fill_missing_gradients();
  const Tensor& gradients = parameters.gradients();
  const kernels::SumOfSquares squares = kernels::sum_of_squares_cpu(gradients.data<float>(), gradients.numel());
  current_.grad_norm = std::sqrt(squares.value);
  current_.applied = current_.images > 0 && squares.finite && std::isfinite(current_.loss);
  if (!current_.applied) {
    restore_buffers();
    return std::exchange(current_, {});
  }
  // As torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
  const double clip = options_.clip_grad_norm;
  const double scale = clip > 0 ? std::min(1.0, clip / (current_.grad_norm + 1e-6)) : 1.0;
  parts_.optimizer->step(lr, scale);
  if (parts_.average != nullptr) parts_.average->update();
  return std::exchange(current_, {});  // so that no picture is kept until the next step
}

void HostStep::keep_buffers() {
  for (size_t i = 0; i < buffers_.size(); ++i) kept_buffers_[i].tensor.copy_from(buffers_[i].tensor);
}

void HostStep::restore_buffers() {
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].tensor.copy_from(kept_buffers_[i].tensor);
}

}  // namespace engine
