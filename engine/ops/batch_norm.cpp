#include "engine/ops/batch_norm.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/batch_norm_device.h"
#include "engine/ops/checks.h"
#include "engine/ops/cpu_path.h"
#include "kernels/batch_norm/batch_norm.h"

namespace engine {
namespace {

constexpr MemoryCategory kWorkspace = MemoryCategory::workspace;

struct Saved {
  Tensor x, y, weight, bias, mean, invstd, running_var;
  BatchNormOptions options;
};

template <typename T>
void reference_forward(const kernels::BatchNormForward<T>& args, bool training) {
  training ? kernels::batch_norm_forward_cpu(args) : kernels::batch_norm_inference_cpu(args);
}

void forward(const kernels::BatchNormForward<double>& args, bool training) { reference_forward(args, training); }

template <typename T>
void forward(const kernels::BatchNormForward<T>& args, bool training) {
  if constexpr (!kernels::kNarrow<T>) {
    if (cpu_path() == CpuPath::reference) return reference_forward(args, training);
  }
  training ? kernels::batch_norm_forward_fast(args) : kernels::batch_norm_inference_fast(args);
}

template <typename T>
void reference_backward(const kernels::BatchNormBackward<T>& args, bool training) {
  training ? kernels::batch_norm_backward_cpu(args) : kernels::batch_norm_inference_backward_cpu(args);
}

void backward(const kernels::BatchNormBackward<double>& args, bool training) { reference_backward(args, training); }

template <typename T>
void backward(const kernels::BatchNormBackward<T>& args, bool training) {
  if constexpr (!kernels::kNarrow<T>) {
    if (cpu_path() == CpuPath::reference) return reference_backward(args, training);
  }
  training ? kernels::batch_norm_backward_fast(args) : kernels::batch_norm_inference_backward_fast(args);
}

/// Memory for a gradient like x: x's own or the upstream gradient's where nobody else has it.
Tensor reuse_or_allocate(const Tensor& first, const Tensor& second) {
  if (first.defined() && first.owns_alone()) return first;
  if (second.defined() && second.owns_alone()) return second;
  const Tensor& like = first.defined() ? first : second;
  return like.new_empty(like.shape(), like.dtype());
}

template <typename T>
void run_backward(Saved& saved, Gradients& gradients) {
  using Parameter = kernels::Wide<T>;
  Tensor grad_y = gradients.take_output(0).contiguous();
  const Shape per_channel = saved.weight.shape();
  // Chosen before further handles to the same memory exist.
  Tensor grad_residual = gradients.wanted(3) ? reuse_or_allocate(grad_y, saved.y) : Tensor();
  const Tensor free_grad_y = grad_residual.defined() ? Tensor() : grad_y.owns_alone() ? grad_y.detach() : Tensor();
  Tensor grad_x;
  if (gradients.wanted(0)) {
    grad_x = saved.x.owns_alone()    ? saved.x
             : free_grad_y.defined() ? free_grad_y
                                     : saved.x.new_empty(saved.x.shape(), saved.x.dtype());
  }
  Tensor grad_gamma = gradients.target(1, per_channel, dtype_of<Parameter>);
  Tensor grad_beta = gradients.target(2, per_channel, dtype_of<Parameter>);
  const int64_t channels = saved.weight.numel();
  const Tensor workspace = Tensor::empty({kernels::batch_norm_workspace_bytes(channels)}, DType::u8, kWorkspace);
  kernels::BatchNormBackward<T> args;
  args.rows = channels == 0 ? 0 : saved.x.numel() / channels;
  args.channels = channels;
  args.eps = saved.options.eps;
  args.relu = saved.options.relu;
  args.x = saved.x.data<T>();
  args.y = saved.y.defined() ? saved.y.data<T>() : nullptr;
  args.grad_y = grad_y.data<T>();
  args.gamma = saved.weight.data<Parameter>();
  args.beta = saved.bias.data<Parameter>();
  args.mean = saved.mean.data<Parameter>();
  args.invstd = saved.invstd.defined() ? saved.invstd.data<Parameter>() : nullptr;
  args.running_var = saved.running_var.defined() ? saved.running_var.data<Parameter>() : nullptr;
  args.grad_x = grad_x.defined() ? grad_x.data<T>() : nullptr;
  args.grad_residual = grad_residual.defined() ? grad_residual.data<T>() : nullptr;
  args.grad_gamma = grad_gamma.data<Parameter>();
  args.grad_beta = grad_beta.data<Parameter>();
  args.workspace = reinterpret_cast<std::byte*>(workspace.raw());
  backward(args, saved.options.training);
  gradients.set(0, std::move(grad_x));
  if (gradients.wanted(1)) gradients.set(1, std::move(grad_gamma));
  if (gradients.wanted(2)) gradients.set(2, std::move(grad_beta));
  gradients.set(3, std::move(grad_residual));
}

/// Runs the forward pass; fills in saved statistics where they will be needed.
template <typename T>
void run_forward(const Tensor& x, const BatchNormState& state, const Tensor& residual, const Tensor& y, Saved& saved) {
  using Parameter = kernels::Wide<T>;
  const int64_t channels = state.weight.numel();
  const Tensor workspace = Tensor::empty({kernels::batch_norm_workspace_bytes(channels)}, DType::u8, kWorkspace);
  kernels::BatchNormForward<T> args;
  args.rows = channels == 0 ? 0 : x.numel() / channels;
  args.channels = channels;
  args.eps = saved.options.eps;
  args.momentum = saved.options.momentum;
  args.relu = saved.options.relu;
  args.x = x.data<T>();
  args.gamma = state.weight.data<Parameter>();
  args.beta = state.bias.data<Parameter>();
  args.residual = residual.defined() ? residual.data<T>() : nullptr;
  args.y = y.data<T>();
  if (!saved.options.training || saved.options.tracked) {
    args.running_mean = state.running_mean.data<Parameter>();
    args.running_var = state.running_var.data<Parameter>();
  }
  args.workspace = reinterpret_cast<std::byte*>(workspace.raw());
  if (saved.options.training) {
    saved.mean = x.new_empty({channels}, dtype_of<Parameter>);
    saved.invstd = x.new_empty({channels}, dtype_of<Parameter>);
    args.saved_mean = saved.mean.data<Parameter>();
    args.saved_invstd = saved.invstd.data<Parameter>();
  } else {
    // Copies: a later training step changes the running statistics.
    saved.mean = state.running_mean.clone();
    saved.running_var = state.running_var.clone();
  }
  forward(args, saved.options.training);
}

}  // namespace

void check_batch_norm(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                      const Tensor& residual) {
  check_input("batch_norm", "x", x);
  ENGINE_CHECK(x.rank() >= 2, "[batch_norm] x: got {}, expected [..., channels]", x.shape().str());
  const int64_t channels = x.dim(-1);
  // Parameters and statistics are f32 on an accelerator and beside 16-bit values.
  const bool narrow = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  const Tensor& like = narrow || !x.device().is_cpu() ? state.weight : x;
  ENGINE_CHECK(!narrow || like.dtype() == DType::f32, "[batch_norm] weight: got {} beside {} values, expected f32",
               name_of(like.dtype()), name_of(x.dtype()));
  check_shape("batch_norm", "weight", state.weight, Shape{channels}, like);
  check_shape("batch_norm", "bias", state.bias, Shape{channels}, like);
  check_shape("batch_norm", "running_mean", state.running_mean, Shape{channels}, like);
  check_shape("batch_norm", "running_var", state.running_var, Shape{channels}, like);
  ENGINE_CHECK(x.device() == like.device(), "[batch_norm] x: got a tensor on {}, expected one on {}",
               name_of(x.device()), name_of(like.device()));
  if (residual.defined()) check_shape("batch_norm", "residual", residual, x.shape(), x);
  ENGINE_CHECK(
      !options.training || channels == 0 || x.numel() / channels > 1,
      "[batch_norm] x: got {}, expected more than one value per channel in training (a larger batch or picture)",
      x.shape().str());
}

Tensor batch_norm(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                  const Tensor& residual) {
  check_batch_norm(x, state, options, residual);
  if (!x.device().is_cpu()) return batch_norm_on_device(x, state, options, residual);
  Tensor y = x.new_empty(x.shape(), x.dtype());
  Saved saved{.x = x.detach(),
              .y = {},
              .weight = state.weight.detach(),
              .bias = state.bias.detach(),
              .mean = {},
              .invstd = {},
              .running_var = {},
              .options = options};
  dispatch_floating(x.dtype(), "batch_norm", [&]<typename T>() { run_forward<T>(x, state, residual, y, saved); });
  if (!should_record({&x, &state.weight, &state.bias, &residual})) return y;
  // Without a residual the mask of the ReLU is computed again from x, which saves keeping and reading y.
  if (options.relu && residual.defined()) saved.y = y.detach();
  record("batch_norm", {&x, &state.weight, &state.bias, &residual}, {&y},
         [saved = std::move(saved)](Gradients& gradients) mutable {
           dispatch_floating(saved.x.dtype(), "batch_norm", [&]<typename T>() { run_backward<T>(saved, gradients); });
         });
  return y;
}

}  // namespace engine
