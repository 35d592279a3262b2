// The gradient norm of ResNet-50.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/norm/norm.h"
#include "kernels/norm/norm_cuda.h"

namespace engine::bench {
namespace {

const bool kNorm = register_memory_benchmark("norm/sum_of_squares", 4 * kParameters, [] {
  return [x = random_floats(kParameters, 1)] {
    benchmark::DoNotOptimize(kernels::sum_of_squares_cpu(x.data(), kParameters));
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  register_device_benchmark("norm/cuda_" + type + "/parameters", [] {
    const DeviceParameters on_device;
    const int count = kernels::norm_partials(kDeviceParameters);
    const int64_t partial_bytes = count * int64_t{sizeof(kernels::NormPartial)};
    return DeviceWork{.enqueue =
                          [=, partials = device_memory(partial_bytes)](cudaStream_t stream) {
                            auto* const sums = partials->as<kernels::NormPartial>();
                            kernels::gradient_norm_partials_cuda(on_device.gradients->as<T>(), kDeviceParameters, sums,
                                                                 stream);
                            kernels::decide_step_cuda(on_device.state->as<kernels::StepState>(), sums, count, stream);
                          },
                      .bytes = kDeviceParameters * int64_t{sizeof(T)}};
  });
});

}  // namespace
}  // namespace engine::bench
