#include "engine/train/device_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/autograd/backward.h"
#include "engine/core/device_table.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/core/memory_shortage.h"
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

/// Steps whose outcome the host does not wait for: enough for the device to have the next one at hand.
constexpr size_t kMostLate = 2;
constexpr size_t kSlots = kMostLate + 1;

/// Micro-batches of a step that are kept; for more, the steps before it are waited for in the middle of it.
constexpr size_t kMostKept = 4;

}  // namespace

DeviceStep::DeviceStep(const TrainedParts& parts, const TrainStepOptions& options)
    : parts_(parts),
      options_(options),
      device_(parts.parameters->device()),
      stream_(compute_stream(device_)),
      upload_(device_, parts.parameters->compute_dtype()),
      mailbox_(stream_, kSlots) {
  constexpr MemoryCategory kCategory = MemoryCategory::workspace;
  StepState initial = letter(0);
  initial.scaling = options.first_scaling();
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

DeviceStep::Step& DeviceStep::open_step() {
  if (steps_.empty() || steps_.back().ended) {
    steps_.emplace_back();
    steps_.back().last_form.last = true;
  }
  return steps_.back();
}

void DeviceStep::add(const Batch& batch) {
  use_device(device_);
  go_on();
  Step& step = open_step();
  if (!halted_) enqueue_batch(step, batch);
  if (batch.samples.empty()) return;
  step.outcome.images += batch.images.dim(0);
  step.outcome.samples.insert(step.outcome.samples.end(), batch.samples.begin(), batch.samples.end());
  step.batches.push_back(batch);
  if (step.batches.size() > kMostKept) release_batch();
}

void DeviceStep::end(double lr) {
  use_device(device_);
  go_on();
  Step& step = open_step();
  step.ended = true;
  step.lr = lr;
  if (step.outcome.images == 0) {
    step.outcome.applied = false;
    step.decided = true;
  } else if (!halted_) {
    try {
      enqueue_end(step);
    } catch (...) {
      steps_.pop_back();  // what there is of it has no outcome
      throw;
    }
  }
}

std::optional<StepOutcome> DeviceStep::take(Lateness lateness) {
  use_device(device_);
  go_on();
  if (steps_.empty() || !steps_.front().ended) return std::nullopt;
  Step& oldest = steps_.front();
  if (!oldest.decided) {
    // Doing it again failed.
    if (!oldest.slot) return std::nullopt;
    if (lateness == Lateness::allowed && undecided() <= kMostLate) return std::nullopt;
    decide(oldest);
  }
  StepOutcome outcome = std::move(oldest.outcome);
  steps_.pop_front();
  return outcome;
}

size_t DeviceStep::undecided() const {
  return static_cast<size_t>(
      std::count_if(steps_.begin(), steps_.end(), [](const Step& step) { return step.slot.has_value(); }));
}

StepState DeviceStep::letter(double lr) const {
  StepState from_host;
  from_host.lr = static_cast<float>(lr);
  from_host.clip_norm = static_cast<float>(options_.clip_grad_norm);
  from_host.dynamic_scale = options_.dynamic_loss_scale ? 1 : 0;
  from_host.most_skips = options_.most_skips;
  return from_host;
}

void DeviceStep::enqueue_batch(Step& step, const Batch& batch) {
  Form form;
  form.first = step.enqueued == 0 && !batch.samples.empty();
  form.last = batch.last_of_step;
  const DeviceBatch* uploaded = nullptr;
  if (!batch.samples.empty()) {
    const MemoryPhase phase("the transfer of a batch");
    uploaded = &upload_.upload(batch);
    const auto extents = uploaded->images.shape().extents();
    form.extents.assign(extents.begin(), extents.end());
    form.global_samples = batch.global_samples;
    ++step.enqueued;
  }
  if (form.last) {
    step.last_form = form;
    step.last_batch = uploaded;
  } else if (uploaded != nullptr) {
    run(form, uploaded);
    ++step.counted;
  }
}

void DeviceStep::enqueue_end(Step& step) {
  // Where outcomes are taken in time there is a slot.
  for (Step& earlier : steps_) {
    if (undecided() < kSlots || halted_) break;
    if (earlier.slot) decide(earlier);
  }
  if (halted_) return;
  const size_t slot = mailbox_.send(letter(step.lr), state());
  run(step.last_form, step.last_batch);
  if (step.last_batch != nullptr) ++step.counted;
  mailbox_.fetch(slot, state());
  step.slot = slot;  // only now there is something to wait for
}

void DeviceStep::decide(Step& step) {
  const StepState result = mailbox_.read(*step.slot);
  step.slot.reset();
  step.decided = true;
  step.outcome.loss = static_cast<double>(result.loss);
  step.outcome.grad_norm = static_cast<double>(result.grad_norm);
  step.outcome.applied = result.applied != 0;
  step.outcome.scaling = result.scaling;
  parts_.optimizer->set_applied_steps(result.applied_steps);
  if (result.halted != 0) {
    halt(step);
  } else {
    if (!step.outcome.applied) count_batches(-step.counted);
    step.batches.clear();
    step.counted = 0;
  }
  // Once no step is on its way, the average's counters are those of the last applied one.
  if (parts_.average != nullptr) parts_.average->count();
}

void DeviceStep::halt(Step& step) {
  halted_ = true;
  // The open step's micro-batches have moved the statistics.
  restore_if_skipped();
  // Frees the mailbox.
  stream_.synchronize();
  for (Step& undone : steps_) {
    undone.slot.reset();
    count_batches(-std::exchange(undone.counted, 0));
  }
  for (const Batch& batch : step.batches) {
    step.outcome.suspect = batch;
    if (&batch == &step.batches.back() || first_nonfinite_layer(*parts_.model, batch) != kInGradients) break;
  }
  step.batches.clear();
}

void DeviceStep::go_on() {
  // The steps up to the one that was not applied are decided.
  if (!halted_ || (!steps_.empty() && steps_.front().decided)) return;
  halted_ = false;
  state_value(offsetof(StepState, halted)).fill(0);
  for (Step& step : steps_) {
    if (halted_ || step.decided) continue;
    step.enqueued = 0;
    step.last_form = {};
    step.last_form.last = true;
    step.last_batch = nullptr;
    for (const Batch& batch : step.batches) enqueue_batch(step, batch);
    if (step.ended) enqueue_end(step);
  }
}

void DeviceStep::release_batch() {
  // Only a step behind an undecided one may have to be done again.
  for (Step& earlier : steps_) {
    if (!halted_ && earlier.slot) decide(earlier);
  }
  if (!halted_) steps_.back().batches.erase(steps_.back().batches.begin());
}

void DeviceStep::run(const Form& form, const DeviceBatch* batch) {
  if (!works_.contains(form)) make_room(form);
  Work& work = works_[form];
  ++work.runs;
  if (work.recorded) {
    if (!form.extents.empty()) count_batches(1);
    work.recorded->replay(stream_);
  } else if (!options_.recorded || work.runs == 1 || !record(work, form, batch)) {
    enqueue(form, batch);
  }
}

void DeviceStep::make_room(const Form& form) {
  if (works_.size() >= kMostWorks) works_.clear();
  int64_t largest = 0;
  for (const auto& [other, work] : works_) {
    if (work.recorded && !other.extents.empty()) largest = std::max(largest, other.extents[0]);
  }
  if (largest == 0 || form.extents.empty()) return;
  const MemoryStats stats = memory_stats(device_);
  const auto peak = [&](MemoryCategory category) { return stats.peak[static_cast<size_t>(category)]; };
  const int64_t wanted =
      peak(MemoryCategory::activations) * form.extents[0] / largest + peak(MemoryCategory::workspace);
  if (usable_memory(device_) - stats.live_total >= wanted) return;
  log_warn("steps run unrecorded: no memory for work on {} pictures beside the recorded one on {}", form.extents[0],
           largest);
  options_.recorded = false;
  forget_recorded();
}

bool DeviceStep::record(Work& work, const Form& form, const DeviceBatch* batch) {
  std::vector<int64_t> before;
  for (const NamedTensor& counter : parts_.parameters->counters()) before.push_back(*counter.tensor.data<int64_t>());
  std::string reason;
  try {
    // Recorded work has memory of its own, beside what the steps before it have left in the pool.
    release_unused_memory(device_);
    work.recorded = std::make_unique<RecordedWork>(stream_, [&] { enqueue(form, batch); });
    // That ran the model on the host, with its counters, but nothing on the device, which takes the memory now.
    work.recorded->replay(stream_);
    return true;
  } catch (const OutOfMemoryError& error) {
    reason = error.what();
  } catch (const kernels::CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation && error.code() < cudaErrorStreamCaptureUnsupported) throw;
    reason = error.what();
  }
  log_warn("a step cannot be recorded, steps run unrecorded: {}", reason);
  options_.recorded = false;
  forget_recorded();  // this work and others, whose memory the unrecorded steps need
  size_t i = 0;
  for (const NamedTensor& counter : parts_.parameters->counters()) *counter.tensor.data<int64_t>() = before[i++];
  return false;
}

bool DeviceStep::forget_recorded() {
  const bool any =
      std::any_of(works_.begin(), works_.end(), [](const auto& entry) { return entry.second.recorded != nullptr; });
  stream_.synchronize();
  works_.clear();
  release_unused_memory(device_);
  return any;
}

void DeviceStep::enqueue(const Form& form, const DeviceBatch* batch) {
  FlatParameters& parameters = *parts_.parameters;
  if (form.first) {
    if (kept_count_ > 0) {
      kernels::keep_cuda(table_data<const kernels::KeptBuffer>(kept_table_), kept_count_, kept_statistics_.bytes(),
                         stream_.handle());
    }
    state_value(offsetof(StepState, loss)).fill(0);
    parameters.clear_gradients();
  }
  if (batch != nullptr) {
    const Tensor scale = state_value(offsetof(StepState, scaling) + offsetof(kernels::LossScale, scale));
    const MemoryPhase forward_phase("the forward pass");
    const Tensor logits = (*parts_.model)(batch->images);
    const Tensor loss = softmax_cross_entropy(logits, batch->labels,
                                              {.label_smoothing = options_.label_smoothing,
                                               .normalizer = static_cast<double>(form.global_samples),
                                               .add_to = state_value(offsetof(StepState, loss)),
                                               .grad_scale = scale});
    const MemoryPhase backward_phase("the backward pass");
    backward(loss, scale);
  }
  if (form.last) enqueue_update();
}

void DeviceStep::enqueue_update() {
  const MemoryPhase phase("the update");
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
  restore_if_skipped();
}

void DeviceStep::restore_if_skipped() {
  if (kept_count_ == 0) return;
  kernels::restore_if_skipped_cuda(state(), table_data<const kernels::KeptBuffer>(kept_table_), kept_count_,
                                   kept_statistics_.bytes(), stream_.handle());
}

void DeviceStep::count_batches(int64_t by) {
  for (const NamedTensor& counter : parts_.parameters->counters()) *counter.tensor.data<int64_t>() += by;
}

}  // namespace engine
