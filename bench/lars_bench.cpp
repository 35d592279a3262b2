// One update of as many parameters as ResNet-50 has, norms included, as if they were one tensor.

#include <cmath>

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/lars/lars.h"
#include "kernels/lars/lars_cuda.h"
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

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  register_device_benchmark("lars/cuda_" + type + "/parameters", [] {
    const DeviceParameters on_device;
    const std::vector<kernels::LarsTensor> of_segments = kernels::lars_tensors(on_device.segments);
    const auto tensor_count = static_cast<int>(of_segments.size());
    const bool copied = sizeof(T) < sizeof(float);
    return DeviceWork{.enqueue =
                          [=, tensors = device_copy_of(of_segments),
                           workspace = device_memory(kernels::lars_workspace_bytes(
                               on_device.chunk_count(), tensor_count))](cudaStream_t stream) {
                            kernels::lars_step_cuda<T, T>({.state = on_device.state->as<kernels::StepState>(),
                                                           .chunks = on_device.table->as<kernels::ParameterChunk>(),
                                                           .chunk_count = on_device.chunk_count(),
                                                           .tensors = tensors->as<kernels::LarsTensor>(),
                                                           .tensor_count = tensor_count,
                                                           .master = on_device.master->as<float>(),
                                                           .gradients = on_device.gradients->as<T>(),
                                                           .momentum_buffer = on_device.first->as<float>(),
                                                           .compute_copy = copied ? on_device.copy->as<T>() : nullptr,
                                                           .momentum = 0.9F,
                                                           .elements = kDeviceParameters},
                                                          workspace->as<void>(), stream);
                          },
                      .bytes = kDeviceParameters * (20 + int64_t{sizeof(T)} * (copied ? 3 : 2))};
  });
});

}  // namespace
}  // namespace engine::bench
