// The convolutions of ResNet-50 (batch 16, 224x224) and SimpleCNN in their three directions on the fast path. Counters:
// operations a second of a direct convolution, their share of the machine's measured peak (above 1 where Winograd saves
// more than it loses), how often the model has the shape, and a 1 under the algorithm's name. The label names the
// implementation. Threads: OMP_NUM_THREADS.
// On a device: plain plans of the same convolutions at batch 256, all of them in FP16, the 3x3 filters of each stage
// and the stem in all types; and the project's own kernels.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench/support/convolutions.h"
#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/machine.h"
#include "bench/support/stopwatch.h"
#include "kernels/common/parallel.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/conv2d_device.h"
#include "kernels/conv2d/conv2d_direct_cuda.h"
#include "kernels/conv2d/conv2d_select.h"

namespace engine::bench {
namespace {

using kernels::Conv2dShape;
using kernels::ConvDirection;

const char* algorithm_name(kernels::ConvAlgorithm algorithm) {
  switch (algorithm) {
    case kernels::ConvAlgorithm::onednn:
      return "onednn";
    case kernels::ConvAlgorithm::gemm:
      return "gemm";
    case kernels::ConvAlgorithm::winograd:
      return "winograd";
  }
  return "unknown";
}

std::vector<float> ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251) / 251.0F - 0.5F;
  return values;
}

void run(benchmark::State& state, const NamedConvolution& convolution, ConvDirection direction) {
  const Conv2dShape& shape = convolution.shape;
  std::vector<float> x = ramp(shape.x_numel()), weight = ramp(shape.weight_numel()), y = ramp(shape.y_numel());
  state.SetLabel(kernels::conv2d_implementation(shape, direction));
  const Stopwatch stopwatch;
  for (auto _ : state) {
    switch (direction) {
      case ConvDirection::forward:
        kernels::conv2d_forward_fast(x.data(), weight.data(), nullptr, y.data(), shape);
        break;
      case ConvDirection::backward_data:
        kernels::conv2d_backward_data_fast(y.data(), weight.data(), x.data(), shape);
        break;
      case ConvDirection::backward_weights:
        kernels::conv2d_backward_weights_fast(x.data(), y.data(), weight.data(), nullptr, shape);
        break;
    }
    benchmark::ClobberMemory();
  }
  const double seconds = stopwatch.seconds();
  const double operations = 2.0 * static_cast<double>(shape.macs() * state.iterations());
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(operations, Counter::kIsRate);
  state.counters["of_peak"] = operations / seconds / peak_flops(kernels::max_threads());
  state.counters[algorithm_name(kernels::conv2d_select(shape, direction))] = 1;
  state.counters["count"] = convolution.count;
}

const bool kRegistered = [] {
  std::vector<NamedConvolution> list = resnet50_convolutions(16);
  list.push_back(simple_cnn_convolution(64));
  const std::pair<const char*, ConvDirection> directions[] = {{"forward", ConvDirection::forward},
                                                              {"backward_data", ConvDirection::backward_data},
                                                              {"backward_weights", ConvDirection::backward_weights}};
  for (const NamedConvolution& convolution : list) {
    for (const auto& [name, direction] : directions) {
      const ConvDirection chosen = direction;
      benchmark::RegisterBenchmark(("conv2d/" + convolution.name + '/' + name).c_str(),
                                   [convolution, chosen](benchmark::State& state) { run(state, convolution, chosen); })
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    }
  }
  return true;
}();

template <typename T>
void register_device_convolution(const NamedConvolution& convolution, ConvDirection direction,
                                 const std::string& name) {
  register_device_benchmark(name, [=] {
    const Conv2dShape& shape = convolution.shape;
    const kernels::ConvPlan& plan =
        kernels::conv2d_plan(0, {.shape = shape, .direction = direction, .type = kElementType<T>});
    constexpr int64_t kBytes = sizeof(T);
    return DeviceWork{
        .enqueue =
            [&plan, direction, x = device_memory(kBytes * shape.x_numel()),
             weight = device_memory(kBytes * shape.weight_numel()), y = device_memory(kBytes * shape.y_numel()),
             workspace = device_memory(plan.workspace_bytes())](cudaStream_t stream) {
              kernels::ConvBuffers buffers{.x = x->as<void>(), .weight = weight->as<void>(), .grad_y = y->as<void>()};
              if (direction == ConvDirection::forward) buffers.y = y->as<void>();
              if (direction == ConvDirection::backward_data) buffers.grad_x = x->as<void>();
              if (direction == ConvDirection::backward_weights) buffers.grad_weight = weight->as<void>();
              plan.run(buffers, workspace->as<void>(), stream);
            },
        .flops = 2.0 * static_cast<double>(shape.macs())};
  });
}

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  std::vector<NamedConvolution> list = resnet50_convolutions(device_extent(256, 1), device_extent(224, 32));
  list.push_back(simple_cnn_convolution(device_extent(64, 1)));
  for (const NamedConvolution& convolution : list) {
    const bool chosen = convolution.name == "stem" || convolution.name == "simple_cnn" ||
                        (convolution.name.ends_with("conv2") && convolution.name.find("first") == std::string::npos);
    if (!chosen && !std::is_same_v<T, kernels::Half>) continue;
    const std::string name = "/cuda_" + type + '/' + convolution.name;
    register_device_convolution<T>(convolution, ConvDirection::forward, "conv2d_forward" + name);
    register_device_convolution<T>(convolution, ConvDirection::backward_data, "conv2d_backward_data" + name);
    register_device_convolution<T>(convolution, ConvDirection::backward_weights, "conv2d_backward_weights" + name);
  }
});

template <typename T>
void register_device_direct(const std::string& type, const NamedConvolution& convolution) {
  const Conv2dShape shape = convolution.shape;
  const double flops = 2.0 * static_cast<double>(shape.macs());
  const int64_t x_bytes = shape.x_numel() * int64_t{sizeof(T)}, y_bytes = shape.y_numel() * int64_t{sizeof(T)};
  const int64_t weight_bytes = shape.weight_numel() * int64_t{sizeof(T)};
  const std::string name = "/cuda_" + type + '/' + convolution.name;
  register_device_benchmark("conv2d_forward_direct" + name, [=] {
    return DeviceWork{.enqueue =
                          [=, x = device_memory(x_bytes), weight = device_memory(weight_bytes),
                           y = device_memory(y_bytes)](cudaStream_t stream) {
                            kernels::conv2d_forward_direct_cuda(x->as<T>(), weight->as<T>(), y->as<T>(), shape, stream);
                          },
                      .flops = flops};
  });
  register_device_benchmark("conv2d_backward_data_direct" + name, [=] {
    return DeviceWork{.enqueue =
                          [=, y = device_memory(y_bytes), weight = device_memory(weight_bytes),
                           x = device_memory(x_bytes)](cudaStream_t stream) {
                            kernels::conv2d_backward_data_direct_cuda(y->as<T>(), weight->as<T>(), x->as<T>(), shape,
                                                                      stream);
                          },
                      .flops = flops};
  });
  register_device_benchmark("conv2d_backward_weights_direct" + name, [=] {
    const int64_t workspace_bytes = kernels::conv2d_backward_weights_direct_workspace_bytes(shape);
    return DeviceWork{
        .enqueue =
            [=, x = device_memory(x_bytes), y = device_memory(y_bytes), weight = device_memory(weight_bytes),
             workspace = device_memory(workspace_bytes)](cudaStream_t stream) {
              kernels::conv2d_backward_weights_direct_cuda<T>({.x = x->as<T>(),
                                                               .grad_y = y->as<T>(),
                                                               .grad_weight = weight->as<T>(),
                                                               .workspace = workspace->as<void>()},
                                                              shape, stream);
            },
        .flops = flops};
  });
}

const bool kDirect = for_storage_types([]<typename T>(const std::string& type) {
  for (const NamedConvolution& convolution : resnet50_convolutions(device_extent(64, 1), device_extent(224, 16))) {
    if (convolution.name == "stage2.conv2") register_device_direct<T>(type, convolution);
  }
  register_device_direct<T>(type, simple_cnn_convolution(device_extent(64, 1)));
});

}  // namespace
}  // namespace engine::bench
