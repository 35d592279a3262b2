// The moving average of ResNet-50's parameters.

#include "bench/support/numbers.h"
#include "kernels/ema/ema.h"

namespace engine::bench {
namespace {

const bool kUpdate = register_memory_benchmark("ema/update", 12 * kParameters, [] {
  return [w = random_floats(kParameters, 1), average = random_floats(kParameters, 2)]() mutable {
    kernels::ema_update_cpu(0.999, w.data(), average.data(), kParameters);
  };
});

}  // namespace
}  // namespace engine::bench
