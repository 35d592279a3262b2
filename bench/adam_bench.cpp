// One update of all of ResNet-50's parameters.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/adam/adam.h"
#include "kernels/adam/adam_cuda.h"

namespace engine::bench {
namespace {

const bool kStep = register_memory_benchmark("adam/step", 28 * kParameters, [] {
  return [w = random_floats(kParameters, 1), grad = random_floats(kParameters, 2), m = Floats(kParameters),
          v = Floats(kParameters)]() mutable {
    kernels::adam_step_cpu({.weight_decay = 1e-4, .step = 10}, w.data(), grad.data(), m.data(), v.data(), kParameters);
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  register_device_benchmark("adam/cuda_" + type + "/parameters", [] {
    const DeviceParameters on_device;
    const bool copied = sizeof(T) < sizeof(float);
    return DeviceWork{.enqueue =
                          [=](cudaStream_t stream) {
                            kernels::adam_step_cuda<T, T>({.state = on_device.state->as<kernels::StepState>(),
                                                           .chunks = on_device.table->as<kernels::ParameterChunk>(),
                                                           .chunk_count = on_device.chunk_count(),
                                                           .master = on_device.master->as<float>(),
                                                           .gradients = on_device.gradients->as<T>(),
                                                           .exp_avg = on_device.first->as<float>(),
                                                           .exp_avg_sq = on_device.second->as<float>(),
                                                           .compute_copy = copied ? on_device.copy->as<T>() : nullptr,
                                                           .elements = kDeviceParameters},
                                                          stream);
                          },
                      .bytes = kDeviceParameters * (24 + int64_t{sizeof(T)} * (copied ? 2 : 1))};
  });
});

}  // namespace
}  // namespace engine::bench
