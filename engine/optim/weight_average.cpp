#include "engine/optim/weight_average.h"

#include <algorithm>

#include "kernels/ema/ema.h"

namespace engine {
namespace {

void swap_bytes(const Tensor& a, const Tensor& b) { std::swap_ranges(a.raw(), a.raw() + a.bytes(), b.raw()); }

}  // namespace

WeightAverage::WeightAverage(Module& model, FlatParameters& parameters, double decay)
    : model_(model),
      parameters_(parameters),
      decay_(decay),
      average_(parameters.like_master(MemoryCategory::optimizer)) {
  average_.copy_from(parameters.master());
  for (NamedTensor& buffer : model.buffers()) {
    buffer.tensor = buffer.tensor.clone(MemoryCategory::optimizer);
    buffers_.push_back(std::move(buffer));
  }
}

void WeightAverage::update() {
  kernels::ema_update_cpu(decay_, parameters_.master().data<float>(), average_.data<float>(), average_.numel());
  const std::vector<NamedTensor> current = model_.buffers();
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Tensor& average = buffers_[i].tensor;
    if (average.dtype() == DType::f32) {
      kernels::ema_update_cpu(decay_, current[i].tensor.data<float>(), average.data<float>(), average.numel());
    } else {
      average.copy_from(current[i].tensor);
    }
  }
}

std::vector<NamedTensor> WeightAverage::tensors() const {
  std::vector<NamedTensor> found = parameters_.views(average_);
  found.insert(found.end(), buffers_.begin(), buffers_.end());
  return found;
}

void WeightAverage::swap_with_model() {
  swap_bytes(average_, parameters_.master());
  const std::vector<NamedTensor> current = model_.buffers();
  for (size_t i = 0; i < buffers_.size(); ++i) swap_bytes(buffers_[i].tensor, current[i].tensor);
}

}  // namespace engine
