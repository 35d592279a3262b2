// Matrix products of fully connected layers on the fast path: the classifiers of ResNet-50 (batch 16) and SimpleCNN
// (batch 64), forward and backward, and square products. Counters as in conv2d_bench.

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/support/machine.h"
#include "bench/support/stopwatch.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"

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

}  // namespace
}  // namespace engine::bench
