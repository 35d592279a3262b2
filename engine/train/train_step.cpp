#include "engine/train/train_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/autograd/node.h"
#include "engine/ops/cast.h"
#include "engine/ops/conv_forms.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/train/batch_upload.h"
#include "engine/train/device_step.h"
#include "engine/train/host_step.h"
#include "kernels/norm/norm.h"

namespace engine {
namespace {

bool all_finite(const Tensor& tensor) {
  const Tensor values = cast(tensor.detach(), DType::f32).to(Device::cpu());
  return kernels::sum_of_squares_cpu(values.data<float>(), values.numel()).finite;
}

/// Watches the layers' outputs for as long as it lives.
class OutputWatch {
 public:
  explicit OutputWatch(Module::OutputObserver observer) { Module::set_output_observer(std::move(observer)); }
  ~OutputWatch() { Module::set_output_observer({}); }
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;
};

std::unique_ptr<StepRunner> make_runner(const TrainedParts& parts, const TrainStepOptions& options) {
  if (parts.parameters->device().is_cpu()) return std::make_unique<HostStep>(parts, options);
  return std::make_unique<DeviceStep>(parts, options);
}

}  // namespace

TrainStep::TrainStep(const TrainedParts& parts, const TrainStepOptions& options)
    : runner_(make_runner(parts, options)) {}

StepOutcome TrainStep::finish(double lr) {
  end(lr);
  StepOutcome last;
  while (auto outcome = take(Lateness::none)) last = std::move(*outcome);
  return last;
}

bool weights_finite(const TrainedParts& parts) {
  return all_finite(parts.parameters->master()) && all_finite(parts.parameters->statistics());
}

std::string first_nonfinite_layer(Module& model, const Batch& batch) {
  std::vector<Tensor> kept;
  for (const NamedTensor& buffer : model.buffers()) kept.push_back(buffer.tensor.clone());
  if (!all_finite(batch.images)) return "the pictures";
  const Device device = device_of(model);
  DeviceBatch input{device.is_cpu() ? cast(batch.images, compute_dtype_of(model)) : batch.images, batch.labels};
  std::optional<BatchUpload> upload;
  if (!device.is_cpu()) input = upload.emplace(device, compute_dtype_of(model)).upload(batch);
  std::string found;
  const NoGradGuard no_grad;
  Tensor logits;
  {
    const FusionScope layer_by_layer({.policy = kernels::FusionPolicy::off});
    const OutputWatch watch([&](const Module& layer, const Tensor& output) {
      if (found.empty() && !all_finite(output)) found = model.name_of(layer);
    });
    logits = model(input.images);
  }
  size_t i = 0;
  for (const NamedTensor& buffer : model.buffers()) buffer.tensor.copy_from(kept[i++]);
  if (!found.empty()) return found;
  return std::isfinite(softmax_cross_entropy(logits, input.labels).item()) ? kInGradients : "the loss";
}

}  // namespace engine
