#pragma once
// Analytic gradients against central differences in FP64.

#include <functional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace engine::testing {

/// A differentiable function of some tensors; it must give the same result each time it is called.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>& inputs)>;

struct GradCheckOptions {
  /// Distance of the central difference; 0: the one that suits a smooth function. A function that is linear, or rounds
  /// to a coarser type, may ask for a larger one.
  double step = 0;
};

/// Checks what backward() finds for each input of `f`, f64 tensors, with a random upstream gradient. Each input is also
/// checked as the only one that wants a gradient; with memory of its own to write it to; and when added to an earlier
/// one. Inputs and upstream gradient must come out unchanged, and no activation may stay behind. `op` is the name of
/// the function under test, as it stands in engine/ops; `what` tells apart its cases.
void ExpectGradients(const std::string& op, const std::string& what, const std::vector<Tensor>& inputs,
                     const TensorFunction& f, const GradCheckOptions& options = {});

/// Values in [low, high) that depend on the key alone, as an f64 tensor.
Tensor random_f64(const Shape& shape, uint64_t key, double low = -1, double high = 1);

/// The same in an order that depends on the key, evenly spaced, so that no two are within a step of a central
/// difference: for maxima.
Tensor spaced_f64(const Shape& shape, uint64_t key);

}  // namespace engine::testing
