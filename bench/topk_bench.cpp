// Top-5 hits among 1000 classes, a validation batch of 256.
// On a device: the same, and SimpleCNN's 10 classes.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/topk/topk.h"
#include "kernels/topk/topk_cuda.h"

namespace engine::bench {
namespace {

const bool kCorrect = register_memory_benchmark("topk/correct", 4 * 256 * 1000, [] {
  return [logits = random_floats(256 * 1000, 1), labels = std::vector<int64_t>(256, 3)] {
    benchmark::DoNotOptimize(kernels::topk_correct_cpu(logits.data(), labels.data(), 256, 1000, 5));
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{256, 1000}, {64, 10}}) {
    const int64_t count = rows, width = classes;
    const std::string shape = std::to_string(rows) + 'x' + std::to_string(classes);
    register_device_benchmark("topk/cuda_" + type + '/' + shape, [=] {
      return DeviceWork{.enqueue =
                            [=, logits = device_memory(count * width * int64_t{sizeof(T)}),
                             labels = device_memory(count * 8), correct = device_memory(4)](cudaStream_t stream) {
                              kernels::topk_correct_cuda<T>({.logits = logits->as<T>(),
                                                             .labels = labels->as<int64_t>(),
                                                             .rows = count,
                                                             .classes = width,
                                                             .k = 5,
                                                             .correct = correct->as<int32_t>()},
                                                            stream);
                            },
                        .bytes = count * (width * int64_t{sizeof(T)} + 8)};
    });
  }
});

}  // namespace
}  // namespace engine::bench
