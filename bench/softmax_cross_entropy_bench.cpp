// 1000 classes, batch 16. Bound by exponentials, not by memory.
// On a device, loss and gradient: the same with 256 rows, SimpleCNN's 10 classes, and the 21,841 of ImageNet-21k.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_cuda.h"

namespace engine::bench {
namespace {

constexpr kernels::SoftmaxCrossEntropy kSpec{.rows = 16, .classes = 1000, .label_smoothing = 0.1, .normalizer = 16};

const bool kForward = register_memory_benchmark("softmax_cross_entropy/forward", 4 * 16 * 1000, [] {
  return [logits = random_floats(16 * 1000, 1), labels = std::vector<int64_t>(16, 3), loss = 0.0]() mutable {
    kernels::softmax_cross_entropy_forward_cpu(kSpec, logits.data(), labels.data(), &loss);
  };
});

const bool kBackward = register_memory_benchmark("softmax_cross_entropy/backward", 8 * 16 * 1000, [] {
  return [logits = random_floats(16 * 1000, 1), labels = std::vector<int64_t>(16, 3),
          gradient = Floats(16 * 1000)]() mutable {
    kernels::softmax_cross_entropy_backward_cpu(kSpec, logits.data(), labels.data(), 1.0, gradient.data());
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const auto& [rows, classes] :
       {std::pair<int64_t, int64_t>{256, 1000}, {256, 100}, {64, 10}, {256, 10}, {device_extent(256, 2), 21841}}) {
    const kernels::SoftmaxCrossEntropy spec{
        .rows = rows, .classes = classes, .label_smoothing = 0.1, .normalizer = static_cast<double>(rows)};
    const std::string shape = std::to_string(rows) + 'x' + std::to_string(classes);
    register_device_benchmark("softmax_cross_entropy/cuda_" + type + '/' + shape, [spec] {
      const int64_t bytes = spec.rows * spec.classes * int64_t{sizeof(T)};
      const auto workspace_bytes = static_cast<int64_t>(kernels::softmax_cross_entropy_workspace_bytes(spec.rows));
      return DeviceWork{
          .enqueue =
              [=, logits = device_memory(bytes), labels = device_memory(spec.rows * 8), gradient = device_memory(bytes),
               loss = device_memory(4), workspace = device_memory(workspace_bytes)](cudaStream_t stream) {
                kernels::softmax_cross_entropy_cuda<T>({.spec = spec,
                                                        .logits = logits->as<T>(),
                                                        .labels = labels->as<int64_t>(),
                                                        .grad_logits = gradient->as<T>(),
                                                        .loss = loss->as<float>(),
                                                        .workspace = workspace->as<void>()},
                                                       stream);
              },
          .bytes = 2 * bytes + 8 * spec.rows};
    });
  }
});

}  // namespace
}  // namespace engine::bench
