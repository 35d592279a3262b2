#include "engine/train/host_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/autograd/backward.h"
#include "engine/core/dispatch.h"
#include "engine/core/memory_shortage.h"
#include "engine/ops/cast.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "kernels/norm/norm.h"

namespace engine {

HostStep::HostStep(const TrainedParts& parts, const TrainStepOptions& options)
    : parts_(parts),
      options_(options),
      scaling_(options.first_scaling()),
      buffers_(parts.model->buffers()),
      kept_buffers_(buffers_) {
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
  const MemoryPhase forward_phase("the forward pass");
  const Tensor logits = (*parts_.model)(cast(batch.images, parts_.parameters->compute_dtype()));
  const Tensor loss = softmax_cross_entropy(
      logits, batch.labels,
      {.label_smoothing = options_.label_smoothing, .normalizer = static_cast<double>(batch.global_samples)});
  current_.loss += loss.item();
  if (!suspect_found_) current_.suspect = batch;
  suspect_found_ = suspect_found_ || !std::isfinite(loss.item());
  current_.images += batch.images.dim(0);
  current_.samples.insert(current_.samples.end(), batch.samples.begin(), batch.samples.end());
  const MemoryPhase backward_phase("the backward pass");
  backward(loss, Tensor::full(Shape{}, static_cast<double>(scaling_.scale), DType::f64));
}

void HostStep::end(double lr) {
  started_ = false;
  current_.applied = update(lr);
  if (current_.images > 0) {
    scaling_ = kernels::advanced(scaling_, current_.applied, options_.dynamic_loss_scale);
    current_.scaling = scaling_;
  }
  if (!current_.applied) restore_buffers();
  if (current_.applied || scaling_.skipped_in_a_row < options_.most_skips) current_.suspect = {};
  outcomes_.push_back(std::exchange(current_, {}));
}

std::optional<StepOutcome> HostStep::take(Lateness) {
  if (outcomes_.empty()) return std::nullopt;
  StepOutcome oldest = std::move(outcomes_.front());
  outcomes_.pop_front();
  return oldest;
}

bool HostStep::update(double lr) {
  const MemoryPhase phase("the update");
  FlatParameters& parameters = *parts_.parameters;
  parameters.fill_missing_gradients();
  kernels::SumOfSquares squares;
  for (const ParameterRegion& region : parameters.regions()) {
    const kernels::SumOfSquares part = dispatch_floating(region.gradients.dtype(), "norm", [&]<typename T>() {
      return kernels::sum_of_squares_cpu(region.gradients.data<T>(), region.count);
    });
    squares.value += part.value;
    squares.finite = squares.finite && part.finite;
  }
  const auto loss_scale = static_cast<double>(scaling_.scale);
  current_.grad_norm = std::sqrt(squares.value) / loss_scale;
  if (current_.images == 0 || !squares.finite || !std::isfinite(current_.loss)) return false;
  // As torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
  const double clip = options_.clip_grad_norm;
  const double scale = clip > 0 ? std::min(1.0, clip / (current_.grad_norm + 1e-6)) : 1.0;
  parts_.optimizer->step(lr, scale / loss_scale);
  if (parts_.average != nullptr) parts_.average->update();
  return true;
}

void HostStep::keep_buffers() {
  for (size_t i = 0; i < buffers_.size(); ++i) kept_buffers_[i].tensor.copy_from(buffers_[i].tensor);
}

void HostStep::restore_buffers() {
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].tensor.copy_from(kept_buffers_[i].tensor);
}

}  // namespace engine
