#include "engine/optim/weight_average.h"

#include <algorithm>
#include <array>

#include "engine/core/device_table.h"
#include "engine/core/stream.h"
#include "kernels/ema/ema.h"
#include "kernels/ema/ema_cuda.h"

namespace engine {
namespace {

void swap_contents(const Tensor& a, const Tensor& b) {
  if (a.device().is_cpu()) {
    std::swap_ranges(a.raw(), a.raw() + a.bytes(), b.raw());
    return;
  }
  const Tensor kept = a.clone(MemoryCategory::workspace);
  a.copy_from(b);
  b.copy_from(kept);
}

}  // namespace

WeightAverage::WeightAverage(Module& model, FlatParameters& parameters, double decay)
    : parameters_(parameters),
      decay_(decay),
      average_(parameters.like_master(MemoryCategory::optimizer)),
      statistics_(parameters.statistics().clone(MemoryCategory::optimizer)) {
  average_.copy_from(parameters.master());
  for (NamedTensor& buffer : model.buffers()) {
    if (buffer.tensor.dtype() == DType::f32) {
      buffer.tensor = parameters.statistics_like(buffer.tensor, statistics_);
    } else {
      buffer.tensor = buffer.tensor.clone(MemoryCategory::optimizer);
      counters_.push_back(buffer);
    }
    buffers_.push_back(std::move(buffer));
  }
}

void WeightAverage::update() {
  kernels::ema_update_cpu(decay_, parameters_.master().data<float>(), average_.data<float>(), average_.numel());
  kernels::ema_update_cpu(decay_, parameters_.statistics().data<float>(), statistics_.data<float>(),
                          statistics_.numel());
  count();
}

void WeightAverage::update_on_device(const kernels::StepState* state) {
  if (!parts_.defined()) {
    const auto parts = kernels::ema_parts(std::array{
        kernels::EmaPair{parameters_.master().data<float>(), average_.data<float>(), average_.numel()},
        kernels::EmaPair{parameters_.statistics().data<float>(), statistics_.data<float>(), statistics_.numel()}});
    part_count_ = static_cast<int>(parts.size());
    parts_ = upload_table(std::span<const kernels::EmaPair>(parts), parameters_.device());
  }
  kernels::ema_update_cuda(state, decay_, table_data<kernels::EmaPair>(parts_), part_count_,
                           average_.numel() + statistics_.numel(), compute_stream(parameters_.device()).handle());
}

void WeightAverage::count() {
  for (size_t i = 0; i < counters_.size(); ++i) counters_[i].tensor.copy_from(parameters_.counters()[i].tensor);
}

std::vector<NamedTensor> WeightAverage::tensors() const {
  std::vector<NamedTensor> found = parameters_.views(average_);
  found.insert(found.end(), buffers_.begin(), buffers_.end());
  return found;
}

void WeightAverage::swap_with_model() {
  swap_contents(average_, parameters_.master());
  parameters_.refresh_compute_copy();
  swap_contents(statistics_, parameters_.statistics());
  for (size_t i = 0; i < counters_.size(); ++i) swap_contents(counters_[i].tensor, parameters_.counters()[i].tensor);
}

}  // namespace engine
