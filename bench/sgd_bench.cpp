// One update of all of ResNet-50's parameters, with momentum.

#include "bench/support/numbers.h"
#include "kernels/sgd/sgd.h"

namespace engine::bench {
namespace {

const bool kStep = register_memory_benchmark("sgd/momentum", 20 * kParameters, [] {
  return [w = random_floats(kParameters, 1), grad = random_floats(kParameters, 2),
          buffer = Floats(kParameters)]() mutable {
    kernels::sgd_step_cpu({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}, w.data(), grad.data(), buffer.data(),
                          kParameters);
  };
});

}  // namespace
}  // namespace engine::bench
