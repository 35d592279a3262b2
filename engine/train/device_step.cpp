#include "engine/train/device_step.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "engine/autograd/backward.h"
#include "engine/core/device_table.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/ops/cast.h"
#include "engine/ops/device_path.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "kernels/common/cuda_error.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/select/select_cuda.h"

namespace engine {
namespace {

using kernels::StepState;

/// Recorded work keeps its memory; training meets two shapes, the epoch's last batch being the smaller one.
constexpr size_t kMostWorks = 16;

}  // namespace

DeviceStep::DeviceStep(const TrainedParts& parts, const TrainStepOptions& options)
    : parts_(parts),
      options_(options),
      device_(parts.parameters->device()),
      stream_(compute_stream(device_)),
      upload_(device_) {
  constexpr MemoryCategory kCategory = MemoryCategory::workspace;
  StepState initial;
  initial.applied_steps = parts.optimizer->applied_steps();
  static_assert(sizeof(StepState) % sizeof(float) == 0);
  state_ =
      Tensor::empty(Shape{static_cast<int64_t>(sizeof(StepState) / sizeof(float))}, DType::f32, kCategory, device_);
  copy_async(state_.raw(), &initial, sizeof initial, stream_);
  int partials = 0;
  for (const ParameterRegion& region : parts.parameters->regions()) partials += kernels::norm_partials(region.count);
  partials_ = Tensor::empty(Shape{partials * static_cast<int64_t>(sizeof(kernels::NormPartial))}, DType::u8, kCategory,
                            device_);
  const Tensor& statistics = parts.parameters->statistics();
  if (statistics.numel() == 0) return;
  kept_statistics_ = statistics.clone(kCategory);
  const kernels::KeptBuffer kept{statistics.raw(), kept_statistics_.raw(), statistics.bytes()};
  const auto table = kernels::kept_parts(std::span(&kept, 1));
  kept_count_ = static_cast<int>(table.size());
  kept_table_ = upload_table(std::span<const kernels::KeptBuffer>(table), device_);
}

StepState* DeviceStep::state() const { return reinterpret_cast<StepState*>(state_.raw()); }

Tensor DeviceStep::state_value(size_t offset) const {
  return state_.narrow(0, static_cast<int64_t>(offset / sizeof(float)), 1).view(Shape{});
}

void DeviceStep::add(const Batch& batch) {
  use_device(device_);
  if (!started_) begin_step();
  Form form;
  form.first = micro_batches_ == 0 && !batch.samples.empty();
  form.last = batch.last_of_step;
  const DeviceBatch* uploaded = nullptr;
  if (!batch.samples.empty()) {
    const auto extents = batch.images.shape().extents();
    form.extents.assign(extents.begin(), extents.end());
    form.global_samples = batch.global_samples;
    uploaded = &upload_.upload(batch);
    ++micro_batches_;
    current_.suspect = batch;
    current_.images += batch.images.dim(0);
    current_.samples.insert(current_.samples.end(), batch.samples.begin(), batch.samples.end());
  }
  if (form.last) {
    last_form_ = form;
    last_batch_ = uploaded;
  } else if (uploaded != nullptr) {
    run(form, uploaded);
  }
}

void DeviceStep::begin_step() {
  started_ = true;
  current_ = {};
  micro_batches_ = 0;
  last_form_ = {};
  last_form_.last = true;
  last_batch_ = nullptr;
}

StepOutcome DeviceStep::finish(double lr) {
  use_device(device_);
  if (!started_) begin_step();
  started_ = false;
  if (current_.images == 0) {
    current_.applied = false;
    return std::exchange(current_, {});
  }
  StepState from_host;
  from_host.lr = static_cast<float>(lr);
  from_host.clip_norm = static_cast<float>(options_.clip_grad_norm);
  from_host.loss_scale = static_cast<float>(options_.loss_scale);
  copy_async(state_.raw(), &from_host, kernels::kStepStateHostBytes, stream_);
  run(last_form_, last_batch_);
  const StepState result = read_state();
  current_.loss = result.loss;
  current_.grad_norm = result.grad_norm;
  current_.applied = result.applied != 0;
  parts_.optimizer->set_applied_steps(result.applied_steps);
  if (!current_.applied) {
    count_batches(-micro_batches_);
  } else if (parts_.average != nullptr) {
    parts_.average->count();
  }
  return std::exchange(current_, {});
}

void DeviceStep::run(const Form& form, const DeviceBatch* batch) {
  if (!works_.contains(form) && works_.size() >= kMostWorks) works_.clear();
  Work& work = works_[form];
  ++work.runs;
  if (!work.recorded && (!options_.recorded || work.runs == 1 || !record(work, form, batch))) {
    enqueue(form, batch);
    return;
  }
  // Recording has run the model on the host, with its counters, but nothing on the device.
  if (work.runs > 2 && !form.extents.empty()) count_batches(1);
  work.recorded->replay(stream_);
}

bool DeviceStep::record(Work& work, const Form& form, const DeviceBatch* batch) {
  try {
    work.recorded = std::make_unique<RecordedWork>(stream_, [&] { enqueue(form, batch); });
    return true;
  } catch (const kernels::CudaError& error) {
    if (error.code() < cudaErrorStreamCaptureUnsupported) throw;
    log_warn("a step cannot be recorded, steps run unrecorded: {}", error.what());
    options_.recorded = false;
    if (!form.extents.empty()) count_batches(-1);
    return false;
  }
}

void DeviceStep::enqueue(const Form& form, const DeviceBatch* batch) {
  FlatParameters& parameters = *parts_.parameters;
  if (form.first) {
    if (kept_count_ > 0) {
      kernels::keep_cuda(table_data<const kernels::KeptBuffer>(kept_table_), kept_count_, stream_.handle());
    }
    state_value(offsetof(StepState, loss)).fill(0);
    parameters.clear_gradients();
  }
  if (batch != nullptr) {
    const Tensor scale = state_value(offsetof(StepState, loss_scale));
    const Tensor logits = (*parts_.model)(cast(batch->images, parameters.compute_dtype()));
    const Tensor loss = softmax_cross_entropy(logits, batch->labels,
                                              {.label_smoothing = options_.label_smoothing,
                                               .normalizer = static_cast<double>(form.global_samples),
                                               .add_to = state_value(offsetof(StepState, loss)),
                                               .grad_scale = scale});
    backward(loss, scale);
  }
  if (form.last) enqueue_update();
}

void DeviceStep::enqueue_update() {
  FlatParameters& parameters = *parts_.parameters;
  parameters.fill_missing_gradients();
  auto* partials = table_data<kernels::NormPartial>(partials_);
  int count = 0;
  for (const ParameterRegion& region : parameters.regions()) {
    dispatch_device(region.gradients.dtype(), "step", [&]<typename T>() {
      kernels::gradient_norm_partials_cuda(region.gradients.data<T>(), region.count, partials + count,
                                           stream_.handle());
    });
    count += kernels::norm_partials(region.count);
  }
  kernels::decide_step_cuda(state(), partials, count, stream_.handle());
  parts_.optimizer->step_on_device(state());
  if (parts_.average != nullptr) parts_.average->update_on_device(state());
  if (kept_count_ == 0) return;
  kernels::restore_if_skipped_cuda(state(), table_data<const kernels::KeptBuffer>(kept_table_), kept_count_,
                                   stream_.handle());
}

void DeviceStep::count_batches(int64_t by) {
  for (const NamedTensor& counter : parts_.parameters->counters()) *counter.tensor.data<int64_t>() += by;
}

StepState DeviceStep::read_state() {
  StepState result;
  copy_async(&result, state_.raw(), sizeof result, stream_);
  stream_.synchronize();
  return result;
}

}  // namespace engine
