// Batch norm's fast path at ResNet-50's shapes, batch 16: forward with ReLU and with residual add and ReLU, and their
// backward passes in place over x. Bytes are those of the passes over whole tensors: forward reads x twice and writes y
// (and reads the residual); backward reads x and grad_y twice and writes grad_x, with a residual it reads y once more,
// writes the masked gradient and reads that instead of grad_y. of_copy: the share of the machine's copy bandwidth.
// On a device, at batch 256: the same with a mask, and the pieces that go with fused convolutions.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/machine.h"
#include "bench/support/numbers.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/batch_norm_cuda.h"
#include "kernels/batch_norm/batch_norm_pieces_cuda.h"

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

/// Tensors and vectors for every kernel over one activation.
template <typename T>
struct DeviceTensors {
  Activation at;
  int64_t bytes = at.elements() * int64_t{sizeof(T)}, mask_bytes = (at.elements() + 31) / 32 * 4;
  DeviceMemory x = device_memory(bytes), residual = device_memory(bytes), y = device_memory(bytes),
               grad_x = device_memory(bytes), mask = device_memory(mask_bytes),
               vectors = device_memory(at.channels * 12 * 4),
               workspace = device_memory(kernels::batch_norm_cuda_workspace_bytes(at.rows(), at.channels));

  float* vector(int which) const { return vectors->as<float>() + which * at.channels; }

  void forward(bool add, cudaStream_t stream) const {
    kernels::batch_norm_forward_cuda<T>({.rows = at.rows(),
                                         .channels = at.channels,
                                         .relu = true,
                                         .x = x->as<T>(),
                                         .gamma = vector(0),
                                         .beta = vector(1),
                                         .residual = add ? residual->as<T>() : nullptr,
                                         .y = y->as<T>(),
                                         .mask = add ? mask->as<uint32_t>() : nullptr,
                                         .running_mean = vector(2),
                                         .running_var = vector(3),
                                         .saved_mean = vector(4),
                                         .saved_invstd = vector(5),
                                         .workspace = workspace->as<std::byte>()},
                                        stream);
  }

  kernels::BatchNormBackwardCuda<T> backward_args(bool add) const {
    return {.rows = at.rows(),
            .channels = at.channels,
            .relu = true,
            .x = x->as<T>(),
            .grad_y = y->as<T>(),
            .mask = add ? mask->as<uint32_t>() : nullptr,
            .gamma = vector(0),
            .beta = vector(1),
            .mean = vector(4),
            .invstd = vector(5),
            .grad_x = grad_x->as<T>(),
            .grad_residual = add ? residual->as<T>() : nullptr,
            .grad_gamma = vector(6),
            .grad_beta = vector(7),
            .workspace = workspace->as<std::byte>()};
  }
};

template <typename T>
void register_device_passes(const std::string& type, const Activation& at) {
  for (const bool add : {false, true}) {
    const std::string name = std::string(add ? "add_relu" : "relu") + "/cuda_" + type + '/' + at.name();
    register_device_benchmark("batch_norm_forward_" + name, [=] {
      const DeviceTensors<T> t{at};
      return DeviceWork{.enqueue = [=](cudaStream_t stream) { t.forward(add, stream); },
                        .bytes = (add ? 4 : 3) * t.bytes + (add ? t.mask_bytes : 0)};
    });
    register_device_benchmark("batch_norm_backward_" + name, [=] {
      const DeviceTensors<T> t{at};
      return DeviceWork{
          .enqueue = [=](cudaStream_t stream) { kernels::batch_norm_backward_cuda(t.backward_args(add), stream); },
          .bytes = (add ? 6 : 5) * t.bytes + (add ? 2 * t.mask_bytes : 0)};
    });
  }
}

template <typename T>
void register_device_inference(const std::string& type, const Activation& at) {
  const std::string name = "/cuda_" + type + '/' + at.name();
  register_device_benchmark("batch_norm_inference" + name, [=] {
    const DeviceTensors<T> t{at};
    return DeviceWork{.enqueue =
                          [=](cudaStream_t stream) {
                            kernels::batch_norm_inference_cuda<T>({.rows = at.rows(),
                                                                   .channels = at.channels,
                                                                   .relu = true,
                                                                   .x = t.x->template as<T>(),
                                                                   .gamma = t.vector(0),
                                                                   .beta = t.vector(1),
                                                                   .y = t.y->template as<T>(),
                                                                   .running_mean = t.vector(2),
                                                                   .running_var = t.vector(3)},
                                                                  stream);
                          },
                      .bytes = 2 * t.bytes};
  });
  register_device_benchmark("batch_norm_inference_backward" + name, [=] {
    const DeviceTensors<T> t{at};
    return DeviceWork{.enqueue =
                          [=](cudaStream_t stream) {
                            kernels::BatchNormBackwardCuda<T> args = t.backward_args(false);
                            args.invstd = nullptr;
                            args.running_var = t.vector(3);
                            kernels::batch_norm_inference_backward_cuda(args, stream);
                          },
                      .bytes = 3 * t.bytes};
  });
}

template <typename T>
void register_device_applies(const std::string& type, const Activation& at) {
  const std::string name = "/cuda_" + type + '/' + at.name();
  register_device_benchmark("batch_norm_apply" + name, [=] {
    const DeviceTensors<T> t{at};
    return DeviceWork{.enqueue =
                          [=](cudaStream_t stream) {
                            kernels::batch_norm_apply_cuda<T>({.rows = at.rows(),
                                                               .channels = at.channels,
                                                               .relu = true,
                                                               .x = t.x->template as<T>(),
                                                               .scale = t.vector(0),
                                                               .bias = t.vector(1),
                                                               .residual = t.residual->template as<T>(),
                                                               .residual_scale = t.vector(2),
                                                               .residual_bias = t.vector(3),
                                                               .y = t.y->template as<T>(),
                                                               .mask = t.mask->template as<uint32_t>()},
                                                              stream);
                          },
                      .bytes = 3 * t.bytes + t.mask_bytes};
  });
  register_device_benchmark("batch_norm_backward_apply" + name, [=] {
    const DeviceTensors<T> t{at};
    return DeviceWork{.enqueue =
                          [=](cudaStream_t stream) {
                            kernels::batch_norm_backward_apply_cuda<T>({.rows = at.rows(),
                                                                        .channels = at.channels,
                                                                        .g = t.y->template as<T>(),
                                                                        .x = t.x->template as<T>(),
                                                                        .g_scale = t.vector(0),
                                                                        .x_scale = t.vector(1),
                                                                        .offset = t.vector(2),
                                                                        .grad_x = t.grad_x->template as<T>()},
                                                                       stream);
                          },
                      .bytes = 3 * t.bytes};
  });
}

/// The vectors of 2048 channels.
template <typename T>
void register_device_vectors(const std::string& type) {
  constexpr int64_t kChannels = 2048;
  const auto memory = [] { return device_memory(kChannels * 12 * 4); };
  const auto finalize = [](const DeviceMemory& vectors) {
    float* const first = vectors->as<float>();
    return kernels::BatchNormFinalizeCuda<T>{.count = 100,
                                             .channels = kChannels,
                                             .sum = first,
                                             .sum_squares = first + kChannels,
                                             .gamma = first + 2 * kChannels,
                                             .beta = first + 3 * kChannels,
                                             .running_mean = first + 4 * kChannels,
                                             .running_var = first + 5 * kChannels,
                                             .saved_mean = first + 6 * kChannels,
                                             .saved_invstd = first + 7 * kChannels,
                                             .stored_scale = reinterpret_cast<T*>(first + 8 * kChannels),
                                             .stored_bias = reinterpret_cast<T*>(first + 9 * kChannels)};
  };
  register_device_benchmark("batch_norm_finalize/cuda_" + type, [=] {
    return DeviceWork{
        .enqueue = [=, vectors = memory()](
                       cudaStream_t stream) { kernels::batch_norm_finalize_cuda(finalize(vectors), stream); },
        .bytes = kChannels * int64_t{40 + 2 * sizeof(T)}};
  });
  register_device_benchmark("batch_norm_inference_finalize/cuda_" + type, [=] {
    return DeviceWork{
        .enqueue = [=, vectors = memory()](
                       cudaStream_t stream) { kernels::batch_norm_inference_finalize_cuda(finalize(vectors), stream); },
        .bytes = kChannels * int64_t{24 + 2 * sizeof(T)}};
  });
}

const bool kDeviceFinish = register_device_benchmark("batch_norm_backward_finish/cuda_f32", [] {
  constexpr int64_t kChannels = 2048;
  return DeviceWork{.enqueue =
                        [vectors = device_memory(kChannels * 9 * 4)](cudaStream_t stream) {
                          float* const first = vectors->as<float>();
                          kernels::batch_norm_backward_finish_cuda({.count = 100,
                                                                    .channels = kChannels,
                                                                    .sum = first,
                                                                    .dot = first + kChannels,
                                                                    .gamma = first + 2 * kChannels,
                                                                    .invstd = first + 3 * kChannels,
                                                                    .grad_gamma = first + 4 * kChannels,
                                                                    .grad_beta = first + 5 * kChannels,
                                                                    .g_scale = first + 6 * kChannels,
                                                                    .x_scale = first + 7 * kChannels,
                                                                    .offset = first + 8 * kChannels},
                                                                   stream);
                        },
                    .bytes = kChannels * 9 * 4};
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const Activation& at : device_activations()) register_device_passes<T>(type, at);
  const Activation middle = device_activations()[1];
  register_device_inference<T>(type, middle);
  register_device_applies<T>(type, middle);
  register_device_vectors<T>(type);
});

}  // namespace
}  // namespace engine::bench
