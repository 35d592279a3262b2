#include "engine/autograd/node.h"
#include "engine/ops/batch_norm_device.h"
#include "engine/ops/device_path.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool_cuda.h"

namespace engine {
namespace {

struct Saved {
  Tensor x, index, weight, mean, invstd;
  kernels::Pool2dShape shape;

  Tensor workspace() const { return device_workspace(x, kernels::bn_relu_max_pool_cuda_workspace_bytes(shape)); }
};

template <typename T>
void run_forward(const BatchNormState& state, const BatchNormOptions& options, const Tensor& y, const Saved& saved) {
  const Tensor workspace = saved.workspace();
  kernels::BnReluMaxPoolForwardCuda<T> args;
  args.shape = saved.shape;
  args.eps = options.eps;
  args.momentum = options.momentum;
  args.x = saved.x.data<T>();
  args.gamma = state.weight.data<float>();
  args.beta = state.bias.data<float>();
  args.y = y.data<T>();
  args.index = saved.index.data<uint8_t>();
  if (options.tracked) {
    args.running_mean = state.running_mean.data<float>();
    args.running_var = state.running_var.data<float>();
  }
  args.saved_mean = saved.mean.data<float>();
  args.saved_invstd = saved.invstd.data<float>();
  args.workspace = reinterpret_cast<std::byte*>(workspace.raw());
  kernels::bn_relu_max_pool_forward_cuda(args, stream_of(y));
}

template <typename T>
void run_backward(Saved& saved, Gradients& gradients) {
  const Tensor grad_y = gradients.take_output(0).contiguous();
  const Tensor workspace = saved.workspace();
  Tensor grad_x;
  if (gradients.wanted(0)) {
    grad_x = saved.x.owns_alone() ? saved.x : saved.x.new_empty(saved.x.shape(), saved.x.dtype());
  }
  Tensor grad_gamma = gradients.target(1, saved.weight.shape(), DType::f32);
  Tensor grad_beta = gradients.target(2, saved.weight.shape(), DType::f32);
  kernels::BnReluMaxPoolBackwardCuda<T> args;
  args.shape = saved.shape;
  args.x = saved.x.data<T>();
  args.grad_y = grad_y.data<T>();
  args.index = saved.index.data<uint8_t>();
  args.gamma = saved.weight.data<float>();
  args.mean = saved.mean.data<float>();
  args.invstd = saved.invstd.data<float>();
  args.grad_x = data_or_null<T>(grad_x);
  args.grad_gamma = grad_gamma.data<float>();
  args.grad_beta = grad_beta.data<float>();
  args.workspace = reinterpret_cast<std::byte*>(workspace.raw());
  kernels::bn_relu_max_pool_backward_cuda(args, stream_of(grad_y));
  gradients.set(0, std::move(grad_x));
  if (gradients.wanted(1)) gradients.set(1, std::move(grad_gamma));
  if (gradients.wanted(2)) gradients.set(2, std::move(grad_beta));
}

}  // namespace

Tensor bn_relu_max_pool_on_device(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                                  const kernels::Pool2dShape& shape) {
  Tensor y = x.new_empty({shape.n, shape.out_h(), shape.out_w(), shape.c}, x.dtype());
  Saved saved{.x = x.detach(),
              .index = x.new_empty(y.shape(), DType::u8),
              .weight = state.weight.detach(),
              .mean = x.new_empty(Shape{shape.c}, DType::f32),
              .invstd = x.new_empty(Shape{shape.c}, DType::f32),
              .shape = shape};
  dispatch_device(x.dtype(), "bn_relu_max_pool", [&]<typename T>() { run_forward<T>(state, options, y, saved); });
  if (!should_record({&x, &state.weight, &state.bias})) return y;
  record("bn_relu_max_pool", {&x, &state.weight, &state.bias}, {&y},
         [saved = std::move(saved)](Gradients& gradients) mutable {
           dispatch_device(saved.x.dtype(), "bn_relu_max_pool",
                           [&]<typename T>() { run_backward<T>(saved, gradients); });
         });
  return y;
}

}  // namespace engine
