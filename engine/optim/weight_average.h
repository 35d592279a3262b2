#pragma once
// Exponential moving average of a model's weights.

#include "engine/nn/flat_parameters.h"
#include "kernels/common/step_state.h"

namespace engine {

/// average = decay * average + (1 - decay) * weights after each applied update; it begins as a copy of the weights. The
/// running statistics are averaged by the same rule, counters are copied. (As torchvision's ExponentialMovingAverage
/// with use_buffers.) Both arguments must outlive it.
class WeightAverage {
 public:
  WeightAverage(Module& model, FlatParameters& parameters, double decay);

  void update();
  /// The same on an accelerator, in the order of its compute stream, unless `state`, in its memory, says that the step
  /// is not applied. Counters are left to count().
  void update_on_device(const kernels::StepState* state);
  /// Copies the model's counters.
  void count();
  /// The average under the model's names: parameters and buffers; views of its own memory.
  std::vector<NamedTensor> tensors() const;
  /// Exchanges the model's weights and buffers with the average; a second call puts them back.
  void swap_with_model();

 private:
  FlatParameters& parameters_;
  double decay_;
  Tensor average_, statistics_;
  std::vector<NamedTensor> counters_;
  std::vector<NamedTensor> buffers_;  // named views of statistics_, and the counters
  Tensor parts_;                      // kernels/ema's table, on an accelerator
  int part_count_ = 0;
};

}  // namespace engine
