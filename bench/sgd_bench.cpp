// One update of all of ResNet-50's parameters, with momentum.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/sgd/sgd.h"
#include "kernels/sgd/sgd_cuda.h"

namespace engine::bench {
namespace {

const bool kStep = register_memory_benchmark("sgd/momentum", 20 * kParameters, [] {
  return [w = random_floats(kParameters, 1), grad = random_floats(kParameters, 2),
          buffer = Floats(kParameters)]() mutable {
    kernels::sgd_step_cpu({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}, w.data(), grad.data(), buffer.data(),
                          kParameters);
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  register_device_benchmark("sgd/cuda_" + type + "/parameters", [] {
    const DeviceParameters on_device;
    const bool copied = sizeof(T) < sizeof(float);
    return DeviceWork{.enqueue =
                          [=](cudaStream_t stream) {
                            kernels::sgd_step_cuda<T, T>({.state = on_device.state->as<kernels::StepState>(),
                                                          .chunks = on_device.table->as<kernels::ParameterChunk>(),
                                                          .chunk_count = on_device.chunk_count(),
                                                          .master = on_device.master->as<float>(),
                                                          .gradients = on_device.gradients->as<T>(),
                                                          .momentum_buffer = on_device.first->as<float>(),
                                                          .compute_copy = copied ? on_device.copy->as<T>() : nullptr,
                                                          .momentum = 0.9F,
                                                          .elements = kDeviceParameters},
                                                         stream);
                          },
                      .bytes = kDeviceParameters * (16 + int64_t{sizeof(T)} * (copied ? 2 : 1))};
  });
});

}  // namespace
}  // namespace engine::bench
