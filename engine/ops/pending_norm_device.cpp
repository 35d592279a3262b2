#include "engine/ops/pending_norm_device.h"

#include <algorithm>
#include <utility>

#include "engine/autograd/node.h"
#include "engine/ops/checks.h"
#include "engine/ops/device_path.h"
#include "kernels/batch_norm/batch_norm_cuda.h"
#include "kernels/batch_norm/batch_norm_pieces_cuda.h"

namespace engine {
namespace {

int64_t channels_of(const PendingNorm& norm) { return norm.weight.numel(); }
int64_t rows_of(const PendingNorm& norm) { return norm.x.numel() / std::max<int64_t>(channels_of(norm), 1); }

void forward(const PendingNorm& norm, bool relu, const Shortcut& shortcut, const Tensor& y, const Tensor& mask) {
  dispatch_device(y.dtype(), "apply_norm", [&]<typename T>() {
    kernels::batch_norm_apply_cuda<T>({.rows = rows_of(norm),
                                       .channels = channels_of(norm),
                                       .relu = relu,
                                       .x = norm.x.data<T>(),
                                       .scale = norm.scale.data<float>(),
                                       .bias = norm.offset.data<float>(),
                                       .residual = data_or_null<T>(shortcut.raw()),
                                       .residual_scale = data_or_null<float>(shortcut.norm.scale),
                                       .residual_bias = data_or_null<float>(shortcut.norm.offset),
                                       .y = y.data<T>(),
                                       .mask = reinterpret_cast<uint32_t*>(data_or_null<int32_t>(mask))},
                                      stream_of(y));
  });
}

/// Inputs of the node. The shortcut's are those of its norm, or the tensor and nothing.
enum Input { kX, kWeight, kBias, kShortcut, kShortcutWeight, kShortcutBias };

struct Saved {
  PendingNorm norm;
  PendingNorm shortcut;  // defined where the shortcut has a norm
  Tensor mask;
  bool relu;
};

/// The memory of a saved tensor where nobody else has it, else new memory like it.
Tensor own_or_new(const Tensor& saved) {
  return saved.owns_alone() ? saved : saved.new_empty(saved.shape(), saved.dtype());
}

void differentiate(const PendingNorm& norm, NormGradient gradient, int first_input, Gradients& gradients) {
  const Shape channels = norm.weight.shape();
  gradient.grad_x = own_or_new(norm.x);
  gradient.grad_weight = gradients.target(first_input + 1, channels, DType::f32);
  gradient.grad_bias = gradients.target(first_input + 2, channels, DType::f32);
  norm_backward(norm, gradient);
  gradients.set(first_input, std::move(gradient.grad_x));
  gradients.set(first_input + 1, std::move(gradient.grad_weight));
  gradients.set(first_input + 2, std::move(gradient.grad_bias));
}

void backward(const Saved& saved, Gradients& gradients) {
  const Tensor grad_y = gradients.take_output(0).contiguous();
  const bool dual = saved.shortcut.defined();
  // The gradient of the sum: without a ReLU grad_y itself.
  Tensor grad_sum;
  if (dual || gradients.wanted(kShortcut)) {
    const bool writable = !saved.relu || grad_y.owns_alone();
    grad_sum = writable ? grad_y.detach() : grad_y.new_empty(grad_y.shape(), grad_y.dtype());
  }
  NormGradient gradient{.grad_y = grad_y, .relu = saved.relu, .mask = saved.mask};
  if (saved.relu) gradient.grad_residual = grad_sum;
  differentiate(saved.norm, std::move(gradient), kX, gradients);
  if (!dual) return gradients.set(kShortcut, std::move(grad_sum));
  differentiate(saved.shortcut, {.grad_y = std::move(grad_sum)}, kShortcut, gradients);
}

}  // namespace

PendingNorm PendingNorm::detached() const {
  PendingNorm copy = *this;
  for (Tensor* tensor : {&copy.x, &copy.weight, &copy.bias}) {
    if (tensor->defined()) *tensor = tensor->detach();
  }
  return copy;
}

Shortcut Shortcut::detached() const {
  return {.tensor = tensor.defined() ? tensor.detach() : Tensor(), .norm = norm.detached()};
}

PendingNorm pending_norm(const Tensor& x, const ConvSums& sums, const BatchNormState& state,
                         const BatchNormOptions& options) {
  check_batch_norm(x, state, options, Tensor());
  const int64_t channels = state.weight.numel();
  const Shape vector{channels};
  check_shape("batch_norm", "sum", sums.sum, vector, state.weight);
  check_shape("batch_norm", "sum_of_squares", sums.sum_of_squares, vector, state.weight);
  PendingNorm norm{.x = x, .weight = state.weight, .bias = state.bias};
  // Few blocks of memory: each is a node of a recorded step.
  const Tensor floats = x.new_empty({4, channels}, DType::f32), stored = x.new_empty({2, channels}, x.dtype());
  int64_t row = 0;
  for (Tensor* one : {&norm.mean, &norm.invstd, &norm.scale, &norm.offset}) *one = floats.select(0, row++);
  norm.stored_scale = stored.select(0, 0);
  norm.stored_offset = stored.select(0, 1);
  dispatch_device(x.dtype(), "batch_norm", [&]<typename T>() {
    kernels::batch_norm_finalize_cuda<T>({.count = rows_of(norm),
                                          .channels = channels,
                                          .eps = options.eps,
                                          .momentum = options.momentum,
                                          .sum = sums.sum.data<float>(),
                                          .sum_squares = sums.sum_of_squares.data<float>(),
                                          .gamma = state.weight.data<float>(),
                                          .beta = state.bias.data<float>(),
                                          .running_mean = options.tracked ? state.running_mean.data<float>() : nullptr,
                                          .running_var = options.tracked ? state.running_var.data<float>() : nullptr,
                                          .saved_mean = norm.mean.data<float>(),
                                          .saved_invstd = norm.invstd.data<float>(),
                                          .scale = norm.scale.data<float>(),
                                          .bias = norm.offset.data<float>(),
                                          .stored_scale = norm.stored_scale.data<T>(),
                                          .stored_bias = norm.stored_offset.data<T>()},
                                         stream_of(x));
  });
  return norm;
}

Tensor apply_norm(const PendingNorm& norm, bool relu, const Shortcut& shortcut) {
  const Tensor &x = norm.x, &added = shortcut.raw();
  if (added.defined()) check_shape("apply_norm", "shortcut", added, x.shape(), x);
  const PendingNorm& other = shortcut.norm;
  const bool recorded = should_record({&x, &norm.weight, &norm.bias, &added, &other.weight, &other.bias});
  Tensor y = x.new_empty(x.shape(), x.dtype()), mask;
  if (recorded && relu && added.defined()) mask = x.new_empty(Shape{(x.numel() + 31) / 32}, DType::i32);
  forward(norm, relu, shortcut, y, mask);
  if (!recorded) return y;
  record("apply_norm", {&x, &norm.weight, &norm.bias, &added, &other.weight, &other.bias}, {&y},
         [saved = Saved{norm.detached(), other.detached(), mask, relu}](Gradients& gradients) {
           backward(saved, gradients);
         });
  return y;
}

Tensor computed(const Activation& activation) {
  return activation.stored.defined() ? activation.stored : apply_norm(activation.norm, true, activation.shortcut);
}

void norm_backward(const PendingNorm& norm, const NormGradient& gradient) {
  const int64_t rows = rows_of(norm), channels = channels_of(norm);
  const Tensor workspace = device_workspace(norm.x, kernels::batch_norm_cuda_workspace_bytes(rows, channels));
  dispatch_device(norm.x.dtype(), "apply_norm", [&]<typename T>() {
    kernels::BatchNormBackwardCuda<T> args;
    args.rows = rows;
    args.channels = channels;
    args.relu = gradient.relu;
    args.x = norm.x.data<T>();
    args.grad_y = gradient.grad_y.data<T>();
    args.mask = reinterpret_cast<const uint32_t*>(data_or_null<int32_t>(gradient.mask));
    args.gamma = norm.weight.data<float>();
    args.beta = norm.bias.data<float>();
    args.mean = norm.mean.data<float>();
    args.invstd = norm.invstd.data<float>();
    args.grad_x = data_or_null<T>(gradient.grad_x);
    args.grad_residual = data_or_null<T>(gradient.grad_residual);
    args.grad_gamma = gradient.grad_weight.data<float>();
    args.grad_beta = gradient.grad_bias.data<float>();
    args.workspace = reinterpret_cast<std::byte*>(workspace.raw());
    kernels::batch_norm_backward_cuda(args, stream_of(norm.x));
  });
}

}  // namespace engine
