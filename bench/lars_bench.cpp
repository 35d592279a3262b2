// One update of as many parameters as ResNet-50 has, norms included, as if they were one tensor.

#include <cmath>

#include "bench/support/numbers.h"
#include "kernels/lars/lars.h"
#include "kernels/norm/norm.h"

namespace engine::bench {
namespace {

const bool kStep = register_memory_benchmark("lars/norms_and_step", 28 * kParameters, [] {
  return [w = random_floats(kParameters, 1), grad = random_floats(kParameters, 2),
          buffer = Floats(kParameters)]() mutable {
    const double w_norm = std::sqrt(kernels::sum_of_squares_cpu(w.data(), kParameters).value);
    const double grad_norm = std::sqrt(kernels::sum_of_squares_cpu(grad.data(), kParameters).value);
    const double ratio = kernels::lars_ratio(w_norm, grad_norm, 0.001, 1e-4);
    kernels::lars_step_cpu({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .ratio = ratio}, w.data(), grad.data(),
                           buffer.data(), kParameters);
  };
});

}  // namespace
}  // namespace engine::bench
