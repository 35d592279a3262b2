// The moving average of ResNet-50's parameters.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/ema/ema.h"
#include "kernels/ema/ema_cuda.h"

namespace engine::bench {
namespace {

const bool kUpdate = register_memory_benchmark("ema/update", 12 * kParameters, [] {
  return [w = random_floats(kParameters, 1), average = random_floats(kParameters, 2)]() mutable {
    kernels::ema_update_cpu(0.999, w.data(), average.data(), kParameters);
  };
});

const bool kDevice = register_device_benchmark("ema/cuda_f32/parameters", [] {
  const DeviceParameters on_device;
  const kernels::EmaPair pair{on_device.master->as<float>(), on_device.first->as<float>(), kDeviceParameters};
  const std::vector<kernels::EmaPair> parts = kernels::ema_parts(std::span(&pair, 1));
  return DeviceWork{
      .enqueue =
          [on_device, table = device_copy_of(parts), count = static_cast<int>(parts.size())](cudaStream_t stream) {
            kernels::ema_update_cuda(on_device.state->as<kernels::StepState>(), 0.999, table->as<kernels::EmaPair>(),
                                     count, kDeviceParameters, stream);
          },
      .bytes = 12 * kDeviceParameters};
});

}  // namespace
}  // namespace engine::bench
