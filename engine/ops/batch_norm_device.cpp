#include "engine/ops/batch_norm_device.h"

#include "engine/autograd/node.h"
#include "engine/ops/device_path.h"
#include "kernels/batch_norm/batch_norm_cuda.h"

namespace engine {
namespace {

struct Saved {
  Tensor x, mask, weight, bias, mean, invstd, running_var;
  BatchNormOptions options;
  int64_t rows = 0, channels = 0;
};

std::byte* bytes_of(const Tensor& workspace) { return reinterpret_cast<std::byte*>(workspace.raw()); }

template <typename T>
void run_forward(const BatchNormState& state, const Tensor& residual, const Tensor& y, const Saved& saved) {
  const Tensor workspace = device_workspace(y, kernels::batch_norm_cuda_workspace_bytes(saved.rows, saved.channels));
  kernels::BatchNormForwardCuda<T> args;
  args.rows = saved.rows;
  args.channels = saved.channels;
  args.eps = saved.options.eps;
  args.momentum = saved.options.momentum;
  args.relu = saved.options.relu;
  args.x = saved.x.data<T>();
  args.gamma = state.weight.data<float>();
  args.beta = state.bias.data<float>();
  args.residual = data_or_null<T>(residual);
  args.y = y.data<T>();
  args.mask = reinterpret_cast<uint32_t*>(data_or_null<int32_t>(saved.mask));
  if (!saved.options.training || saved.options.tracked) {
    args.running_mean = state.running_mean.data<float>();
    args.running_var = state.running_var.data<float>();
  }
  args.workspace = bytes_of(workspace);
  if (saved.options.training) {
    args.saved_mean = saved.mean.data<float>();
    args.saved_invstd = saved.invstd.data<float>();
    return kernels::batch_norm_forward_cuda(args, stream_of(y));
  }
  kernels::batch_norm_inference_cuda(args, stream_of(y));
}

template <typename T>
void run_backward(Saved& saved, Gradients& gradients) {
  Tensor grad_y = gradients.take_output(0).contiguous();
  const bool masked = saved.options.relu;
  // Without a ReLU the residual's gradient is grad_y itself.
  Tensor grad_residual;
  if (gradients.wanted(3)) {
    grad_residual = !masked || grad_y.owns_alone() ? grad_y.detach() : grad_y.new_empty(grad_y.shape(), grad_y.dtype());
  }
  Tensor grad_x;
  if (gradients.wanted(0)) {
    grad_x = saved.x.owns_alone() ? saved.x : saved.x.new_empty(saved.x.shape(), saved.x.dtype());
  }
  Tensor grad_gamma = gradients.target(1, Shape{saved.channels}, DType::f32);
  Tensor grad_beta = gradients.target(2, Shape{saved.channels}, DType::f32);
  const Tensor workspace =
      device_workspace(grad_y, kernels::batch_norm_cuda_workspace_bytes(saved.rows, saved.channels));
  kernels::BatchNormBackwardCuda<T> args;
  args.rows = saved.rows;
  args.channels = saved.channels;
  args.eps = saved.options.eps;
  args.relu = masked;
  args.x = saved.x.data<T>();
  args.grad_y = grad_y.data<T>();
  args.mask = reinterpret_cast<const uint32_t*>(data_or_null<int32_t>(saved.mask));
  args.gamma = saved.weight.data<float>();
  args.beta = saved.bias.data<float>();
  args.mean = saved.mean.data<float>();
  args.invstd = data_or_null<float>(saved.invstd);
  args.running_var = data_or_null<float>(saved.running_var);
  args.grad_x = data_or_null<T>(grad_x);
  args.grad_residual = masked ? data_or_null<T>(grad_residual) : nullptr;
  args.grad_gamma = grad_gamma.data<float>();
  args.grad_beta = grad_beta.data<float>();
  args.workspace = bytes_of(workspace);
  saved.options.training ? kernels::batch_norm_backward_cuda(args, stream_of(grad_y))
                         : kernels::batch_norm_inference_backward_cuda(args, stream_of(grad_y));
  gradients.set(0, std::move(grad_x));
  if (gradients.wanted(1)) gradients.set(1, std::move(grad_gamma));
  if (gradients.wanted(2)) gradients.set(2, std::move(grad_beta));
  gradients.set(3, std::move(grad_residual));
}

}  // namespace

Tensor batch_norm_on_device(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                            const Tensor& residual) {
  const int64_t channels = state.weight.numel();
  Tensor y = x.new_empty(x.shape(), x.dtype());
  const bool recorded = should_record({&x, &state.weight, &state.bias, &residual});
  Saved saved{.x = x.detach(),
              .mask = {},
              .weight = state.weight.detach(),
              .bias = state.bias.detach(),
              .mean = {},
              .invstd = {},
              .running_var = {},
              .options = options,
              .rows = channels == 0 ? 0 : x.numel() / channels,
              .channels = channels};
  if (options.training) {
    saved.mean = x.new_empty(Shape{channels}, DType::f32);
    saved.invstd = x.new_empty(Shape{channels}, DType::f32);
  } else if (recorded) {
    // Copies: a later training step changes the running statistics.
    saved.mean = state.running_mean.clone();
    saved.running_var = state.running_var.clone();
  }
  // Without a residual the mask of the ReLU is computed again from x, which saves keeping and reading it.
  if (recorded && options.relu && residual.defined())
    saved.mask = x.new_empty(Shape{(x.numel() + 31) / 32}, DType::i32);
  dispatch_device(x.dtype(), "batch_norm", [&]<typename T>() { run_forward<T>(state, residual, y, saved); });
  if (!recorded) return y;
  record("batch_norm", {&x, &state.weight, &state.bias, &residual}, {&y},
         [saved = std::move(saved)](Gradients& gradients) mutable {
           dispatch_device(saved.x.dtype(), "batch_norm", [&]<typename T>() { run_backward<T>(saved, gradients); });
         });
  return y;
}

}  // namespace engine
