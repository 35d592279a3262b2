// Matrix products of fully connected layers on the fast path: the classifiers of ResNet-50 (batch 16) and SimpleCNN
// (batch 64), forward and backward, and square products. Counters as in conv2d_bench.
// On a device: ResNet-50's classifier at batch 256 and SimpleCNN's at 64, and a large square.

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/machine.h"
#include "bench/support/stopwatch.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_device.h"

namespace engine::bench {
namespace {

using kernels::MatmulShape;

void run(benchmark::State& state, const MatmulShape& shape) {
  const std::vector<float> a(static_cast<size_t>(shape.m * shape.k), 0.5F);
  const std::vector<float> b(static_cast<size_t>(shape.k * shape.n), 0.25F);
  std::vector<float> c(static_cast<size_t>(shape.m * shape.n));
  state.SetLabel(kernels::matmul_implementation(shape));
  const Stopwatch stopwatch;
  for (auto _ : state) {
    kernels::matmul_onednn(a.data(), b.data(), c.data(), shape);
    benchmark::ClobberMemory();
  }
  const double seconds = stopwatch.seconds();
  const double operations = 2.0 * static_cast<double>(shape.macs() * state.iterations());
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(operations, Counter::kIsRate);
  state.counters["of_peak"] = operations / seconds / peak_flops(kernels::max_threads());
}

const bool kRegistered = [] {
  const std::pair<const char*, MatmulShape> list[] = {
      {"resnet50/forward", {.m = 16, .n = 1000, .k = 2048, .transpose_b = true}},
      {"resnet50/backward_data", {.m = 16, .n = 2048, .k = 1000}},
      {"resnet50/backward_weights", {.m = 1000, .n = 2048, .k = 16, .transpose_a = true}},
      {"simple_cnn/forward", {.m = 64, .n = 10, .k = 21632, .transpose_b = true}},
      {"simple_cnn/backward_data", {.m = 64, .n = 21632, .k = 10}},
      {"simple_cnn/backward_weights", {.m = 10, .n = 21632, .k = 64, .transpose_a = true}},
      {"square/512", {.m = 512, .n = 512, .k = 512}},
      {"square/1024", {.m = 1024, .n = 1024, .k = 1024}},
  };
  for (const auto& [name, shape] : list) {
    const MatmulShape chosen = shape;
    benchmark::RegisterBenchmark((std::string("matmul/") + name).c_str(),
                                 [chosen](benchmark::State& state) { run(state, chosen); })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
  return true;
}();

template <typename T>
void register_device_linear(const std::string& type, const std::string& where, const kernels::LinearShape& shape) {
  struct Memory {
    kernels::LinearShape shape;
    int64_t bytes = int64_t{sizeof(T)};
    DeviceMemory x = device_memory(shape.batch * shape.in * bytes), y = device_memory(shape.batch * shape.out * bytes),
                 weight = device_memory(shape.out * shape.in * bytes),
                 workspace = device_memory(kernels::linear_device_workspace_bytes());
    kernels::LinearDevice layer{.shape = shape, .type = kElementType<T>, .workspace = workspace->as<void>()};
  };
  const double flops = 2.0 * static_cast<double>(shape.batch * shape.in * shape.out);
  const std::string name = "/cuda_" + type + '/' + where;
  register_device_benchmark("matmul_forward" + name, [=] {
    return DeviceWork{.enqueue =
                          [m = Memory{shape}](cudaStream_t stream) {
                            kernels::linear_forward_device(m.layer, m.x->template as<void>(),
                                                           m.weight->template as<void>(), nullptr,
                                                           m.y->template as<void>(), stream);
                          },
                      .flops = flops};
  });
  register_device_benchmark("matmul_backward_data" + name, [=] {
    return DeviceWork{.enqueue =
                          [m = Memory{shape}](cudaStream_t stream) {
                            kernels::linear_backward_data_device(m.layer, m.y->template as<void>(),
                                                                 m.weight->template as<void>(),
                                                                 m.x->template as<void>(), stream);
                          },
                      .flops = flops};
  });
  register_device_benchmark("matmul_backward_weights" + name, [=] {
    return DeviceWork{.enqueue =
                          [m = Memory{shape}](cudaStream_t stream) {
                            kernels::linear_backward_weights_device(m.layer, m.x->template as<void>(),
                                                                    m.y->template as<void>(),
                                                                    m.weight->template as<void>(), stream);
                          },
                      .flops = flops};
  });
}

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  const int64_t side = device_extent(4096, 64);
  register_device_linear<T>(type, "resnet50", {.batch = device_extent(256, 4), .in = 2048, .out = 1000});
  register_device_linear<T>(type, "simple_cnn", {.batch = device_extent(64, 4), .in = 21632, .out = 10});
  register_device_linear<T>(type, "square_" + std::to_string(side), {.batch = side, .in = side, .out = side});
});

}  // namespace
}  // namespace engine::bench
