#pragma once
// Exponential moving average of a model's weights.

#include "engine/nn/flat_parameters.h"

namespace engine {

/// average = decay * average + (1 - decay) * weights after each applied update; it begins as a copy of the weights. The
/// running statistics are averaged by the same rule, counters are copied. (As torchvision's ExponentialMovingAverage
/// with use_buffers.) Both arguments must outlive it.
class WeightAverage {
 public:
  WeightAverage(Module& model, FlatParameters& parameters, double decay);

  void update();
  /// The average under the model's names: parameters and buffers; views of its own memory.
  std::vector<NamedTensor> tensors() const;
  /// Exchanges the model's weights and buffers with the average; a second call puts them back.
  void swap_with_model();

 private:
  Module& model_;
  FlatParameters& parameters_;
  double decay_;
  Tensor average_;
  std::vector<NamedTensor> buffers_;
};

}  // namespace engine
