// Batch norm's fast path at ResNet-50's shapes, batch 16: forward with ReLU and with residual add and ReLU, and their
// backward passes in place over x. Bytes are those of the passes over whole tensors: forward reads x twice and writes y
// (and reads the residual); backward reads x and grad_y twice and writes grad_x, with a residual it reads y once more,
// writes the masked gradient and reads that instead of grad_y. of_copy: the share of the machine's copy bandwidth.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>

#include "bench/support/machine.h"
#include "bench/support/numbers.h"
#include "kernels/batch_norm/batch_norm.h"

namespace engine::bench {
namespace {

using kernels::BatchNormBackward;
using kernels::BatchNormForward;

struct Case {
  int64_t rows, channels;
  int count;  // how often ResNet-50 has it
  bool residual;
};

// ResNet-50 v1.5 at 224x224, batch 16, without the stem; shortcut's batch norms counted as plain ones.
constexpr Case kCases[] = {
    {16 * 112 * 112, 64, 1, false}, {16 * 56 * 56, 64, 6, false},   {16 * 56 * 56, 256, 1, false},
    {16 * 56 * 56, 256, 3, true},   {16 * 56 * 56, 128, 1, false},  {16 * 28 * 28, 128, 7, false},
    {16 * 28 * 28, 512, 1, false},  {16 * 28 * 28, 512, 4, true},   {16 * 28 * 28, 256, 1, false},
    {16 * 14 * 14, 256, 11, false}, {16 * 14 * 14, 1024, 1, false}, {16 * 14 * 14, 1024, 6, true},
    {16 * 14 * 14, 512, 1, false},  {16 * 7 * 7, 512, 5, false},    {16 * 7 * 7, 2048, 1, false},
    {16 * 7 * 7, 2048, 3, true},
};

struct Tensors {
  explicit Tensors(const Case& shape)
      : x(random_floats(shape.rows * shape.channels, 1)),
        y(x.size()),
        residual(shape.residual ? random_floats(shape.rows * shape.channels, 2) : Floats()),
        gamma(static_cast<size_t>(shape.channels), 1.0F),
        beta(gamma.size()),
        mean(gamma.size()),
        invstd(gamma.size()),
        running_mean(gamma.size()),
        running_var(gamma.size(), 1.0F),
        grad_gamma(gamma.size()),
        grad_beta(gamma.size()),
        workspace(static_cast<size_t>(kernels::batch_norm_workspace_bytes(shape.channels))),
        forward{.rows = shape.rows, .channels = shape.channels, .relu = true} {
    forward.x = x.data();
    forward.gamma = gamma.data();
    forward.beta = beta.data();
    forward.residual = shape.residual ? residual.data() : nullptr;
    forward.y = y.data();
    forward.running_mean = running_mean.data();
    forward.running_var = running_var.data();
    forward.saved_mean = mean.data();
    forward.saved_invstd = invstd.data();
    forward.workspace = workspace.data();
  }

  Floats x, y, residual, gamma, beta, mean, invstd, running_mean, running_var, grad_gamma, grad_beta;
  Aligned<std::byte> workspace;
  BatchNormForward<float> forward;
};

void count(benchmark::State& state, const Case& shape, int passes, const Stopwatch& stopwatch) {
  report_bytes(state, shape.rows * shape.channels * passes * static_cast<int64_t>(sizeof(float)), stopwatch.seconds());
  state.counters["per_step"] = shape.count;
}

void forward(benchmark::State& state, const Case& shape) {
  Tensors t(shape);
  const Stopwatch stopwatch;
  for (auto _ : state) {
    kernels::batch_norm_forward_fast(t.forward);
    benchmark::ClobberMemory();
  }
  count(state, shape, shape.residual ? 4 : 3, stopwatch);
}

void backward(benchmark::State& state, const Case& shape) {
  Tensors t(shape);
  kernels::batch_norm_forward_fast(t.forward);
  Floats grad_y = random_floats(shape.rows * shape.channels, 3), grad_x(t.x.size());
  BatchNormBackward<float> args{.rows = shape.rows, .channels = shape.channels, .relu = true};
  args.x = t.x.data();
  args.y = shape.residual ? t.y.data() : nullptr;
  args.grad_y = grad_y.data();
  args.gamma = t.gamma.data();
  args.beta = t.beta.data();
  args.mean = t.mean.data();
  args.invstd = t.invstd.data();
  args.grad_x = grad_x.data();
  args.grad_residual = shape.residual ? grad_y.data() : nullptr;
  args.grad_gamma = t.grad_gamma.data();
  args.grad_beta = t.grad_beta.data();
  args.workspace = t.forward.workspace;
  const Stopwatch stopwatch;
  for (auto _ : state) {
    kernels::batch_norm_backward_fast(args);
    benchmark::ClobberMemory();
  }
  count(state, shape, shape.residual ? 7 : 5, stopwatch);
}

const bool kRegistered = [] {
  for (const Case& shape : kCases) {
    const std::string suffix = std::string(shape.residual ? "add_relu/" : "relu/") + std::to_string(shape.rows) + "x" +
                               std::to_string(shape.channels);
    const auto add = [&](const std::string& name, void (*run)(benchmark::State&, const Case&)) {
      benchmark::RegisterBenchmark(("batch_norm/" + name + suffix).c_str(),
                                   [run, shape](benchmark::State& state) { run(state, shape); })
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    };
    add("forward_", forward);
    add("backward_", backward);
  }
  return true;
}();

}  // namespace
}  // namespace engine::bench
