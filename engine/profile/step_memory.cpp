#include "engine/profile/step_memory.h"

#include <algorithm>

#include "engine/autograd/backward.h"
#include "engine/core/error.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "kernels/common/onednn.h"

namespace engine {
namespace {

constexpr int64_t kSmall = 2, kLarge = 3;  // batch norm needs two

/// Puts back what a step in training mode changes.
class UnchangedModel {
 public:
  UnchangedModel(Module& model, FlatParameters& parameters)
      : model_(model), parameters_(parameters), training_(model.training()), buffers_(model.buffers()) {
    for (const NamedTensor& buffer : buffers_) kept_.push_back(buffer.tensor.clone(MemoryCategory::workspace));
    model_.set_training(true);
  }
  ~UnchangedModel() {
    for (size_t i = 0; i < kept_.size(); ++i) buffers_[i].tensor.copy_from(kept_[i]);
    parameters_.clear_gradients();
    model_.set_training(training_);
  }
  UnchangedModel(const UnchangedModel&) = delete;
  UnchangedModel& operator=(const UnchangedModel&) = delete;

 private:
  Module& model_;
  FlatParameters& parameters_;
  bool training_;
  std::vector<NamedTensor> buffers_;
  std::vector<Tensor> kept_;
};

std::vector<MemoryEvent> events_of_step(Module& model, FlatParameters& parameters, const Shape& picture,
                                        int64_t batch) {
  const Device device = parameters.device();
  const Tensor pictures = Tensor::zeros({batch, picture[0], picture[1], picture[2]}, parameters.compute_dtype(),
                                        MemoryCategory::data, device);
  const Tensor labels = Tensor::zeros({batch}, DType::i64, MemoryCategory::data, device);
  parameters.clear_gradients();
  const MemoryTrace trace(device);
  backward(softmax_cross_entropy(model(pictures), labels, {}));
  return trace.events();
}

}  // namespace

StepMemory StepMemory::measure(Module& model, FlatParameters& parameters, const Shape& picture) {
  const UnchangedModel unchanged(model, parameters);
  // Before the first step libraries and caches take memory that they keep.
  events_of_step(model, parameters, picture, kSmall);
  const auto small = events_of_step(model, parameters, picture, kSmall);
  const auto large = events_of_step(model, parameters, picture, kLarge);
  ENGINE_CHECK(small.size() == large.size(), "[step_memory] steps: got {} and {} allocations, expected as many",
               small.size(), large.size());
  StepMemory memory;
  const auto line = [](int64_t at_small, int64_t at_large) {
    const int64_t per_picture = (at_large - at_small) / (kLarge - kSmall);
    return Bytes{at_large - kLarge * per_picture, per_picture};
  };
  for (size_t i = 0; i < small.size(); ++i) {
    ENGINE_CHECK(small[i].category == large[i].category, "[step_memory] allocation {}: got two categories", i);
    const bool scratch = small[i].category == MemoryCategory::workspace;
    memory.events_.push_back(line(scratch ? large[i].bytes : small[i].bytes, large[i].bytes));
  }
  return memory;
}

int64_t StepMemory::peak(int64_t batch) const {
  int64_t live = 0, most = 0;
  for (const Bytes& event : events_) {
    live += event.at(batch);
    most = std::max(most, live);
  }
  return most;
}

int64_t scratch_of_step(Module& model, FlatParameters& parameters, const Shape& picture, int64_t batch) {
  if (!parameters.device().is_cpu()) return 0;
  const UnchangedModel unchanged(model, parameters);
  kernels::onednn_release_scratch();
  events_of_step(model, parameters, picture, batch);
  return kernels::onednn_scratch_bytes();
}

}  // namespace engine
