// The convolutions of ResNet-50 (batch 16, 224x224) and SimpleCNN in their three directions on the fast path. Counters:
// operations a second of a direct convolution, their share of the machine's measured peak (above 1 where Winograd saves
// more than it loses), how often the model has the shape, and a 1 under the algorithm's name. The label names the
// implementation. Threads: OMP_NUM_THREADS.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench/support/convolutions.h"
#include "bench/support/machine.h"
#include "bench/support/stopwatch.h"
#include "kernels/common/parallel.h"
#include "kernels/conv2d/conv2d.h"
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

}  // namespace
}  // namespace engine::bench
