// One update of all of ResNet-50's parameters.

#include "bench/support/numbers.h"
#include "kernels/adam/adam.h"

namespace engine::bench {
namespace {

const bool kStep = register_memory_benchmark("adam/step", 28 * kParameters, [] {
  return [w = random_floats(kParameters, 1), grad = random_floats(kParameters, 2), m = Floats(kParameters),
          v = Floats(kParameters)]() mutable {
    kernels::adam_step_cpu({.weight_decay = 1e-4, .step = 10}, w.data(), grad.data(), m.data(), v.data(), kParameters);
  };
});

}  // namespace
}  // namespace engine::bench
