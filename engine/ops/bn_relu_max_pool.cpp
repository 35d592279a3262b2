#include "engine/ops/bn_relu_max_pool.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/batch_norm_device.h"
#include "engine/ops/checks.h"
#include "engine/ops/cpu_path.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"

namespace engine {
namespace {

using kernels::Pool2dShape;

struct Saved {
  Tensor x, index, weight, mean, invstd;
  Pool2dShape shape;
};

Tensor make_workspace(const Pool2dShape& shape) {
  return Tensor::empty({kernels::bn_relu_max_pool_workspace_bytes(shape)}, DType::u8, MemoryCategory::workspace);
}

template <typename T>
void forward(const kernels::BnReluMaxPoolForward<T>& args) {
  if constexpr (!kernels::kNarrow<T>) {
    if (cpu_path() == CpuPath::reference) return kernels::bn_relu_max_pool_forward_cpu(args);
  }
  kernels::bn_relu_max_pool_forward_fast(args);
}
void forward(const kernels::BnReluMaxPoolForward<double>& args) { kernels::bn_relu_max_pool_forward_cpu(args); }

template <typename T>
void backward(const kernels::BnReluMaxPoolBackward<T>& args) {
  if constexpr (!kernels::kNarrow<T>) {
    if (cpu_path() == CpuPath::reference) return kernels::bn_relu_max_pool_backward_cpu(args);
  }
  kernels::bn_relu_max_pool_backward_fast(args);
}
void backward(const kernels::BnReluMaxPoolBackward<double>& args) { kernels::bn_relu_max_pool_backward_cpu(args); }

template <typename T>
void run_forward(const BatchNormState& state, const BatchNormOptions& options, const Tensor& y, Saved& saved) {
  using Parameter = kernels::Wide<T>;
  const Tensor workspace = make_workspace(saved.shape);
  kernels::BnReluMaxPoolForward<T> args;
  args.shape = saved.shape;
  args.eps = options.eps;
  args.momentum = options.momentum;
  args.x = saved.x.data<T>();
  args.gamma = state.weight.data<Parameter>();
  args.beta = state.bias.data<Parameter>();
  args.y = y.data<T>();
  args.index = saved.index.data<uint8_t>();
  if (options.tracked) {
    args.running_mean = state.running_mean.data<Parameter>();
    args.running_var = state.running_var.data<Parameter>();
  }
  args.saved_mean = saved.mean.data<Parameter>();
  args.saved_invstd = saved.invstd.data<Parameter>();
  args.workspace = reinterpret_cast<std::byte*>(workspace.raw());
  forward(args);
}

template <typename T>
void run_backward(Saved& saved, Gradients& gradients) {
  using Parameter = kernels::Wide<T>;
  const Tensor grad_y = gradients.take_output(0).contiguous();
  const Tensor workspace = make_workspace(saved.shape);
  Tensor grad_x;
  if (gradients.wanted(0))
    grad_x = saved.x.owns_alone() ? saved.x : saved.x.new_empty(saved.x.shape(), saved.x.dtype());
  Tensor grad_gamma = gradients.target(1, saved.weight.shape(), saved.weight.dtype());
  Tensor grad_beta = gradients.target(2, saved.weight.shape(), saved.weight.dtype());
  kernels::BnReluMaxPoolBackward<T> args;
  args.shape = saved.shape;
  args.x = saved.x.data<T>();
  args.grad_y = grad_y.data<T>();
  args.index = saved.index.data<uint8_t>();
  args.gamma = saved.weight.data<Parameter>();
  args.mean = saved.mean.data<Parameter>();
  args.invstd = saved.invstd.data<Parameter>();
  args.grad_x = grad_x.defined() ? grad_x.data<T>() : nullptr;
  args.grad_gamma = grad_gamma.data<Parameter>();
  args.grad_beta = grad_beta.data<Parameter>();
  args.workspace = reinterpret_cast<std::byte*>(workspace.raw());
  backward(args);
  gradients.set(0, std::move(grad_x));
  if (gradients.wanted(1)) gradients.set(1, std::move(grad_gamma));
  if (gradients.wanted(2)) gradients.set(2, std::move(grad_beta));
}

}  // namespace

Tensor bn_relu_max_pool(const Tensor& x, const BatchNormState& state, const BatchNormOptions& options,
                        const Pool2dOptions& pool) {
  if (!options.training) {
    BatchNormOptions with_relu = options;
    with_relu.relu = true;
    return max_pool2d(batch_norm(x, state, with_relu), pool);
  }
  check_batch_norm(x, state, options, Tensor());
  const Pool2dShape shape = checked_pool_shape("bn_relu_max_pool", x, pool);
  if (!x.device().is_cpu()) return bn_relu_max_pool_on_device(x, state, options, shape);
  const int64_t c = shape.c;
  Tensor y = x.new_empty({shape.n, shape.out_h(), shape.out_w(), c}, x.dtype());
  Saved saved{.x = x.detach(),
              .index = x.new_empty(y.shape(), DType::u8),
              .weight = state.weight.detach(),
              .mean = x.new_empty(Shape{c}, state.weight.dtype()),
              .invstd = x.new_empty(Shape{c}, state.weight.dtype()),
              .shape = shape};
  dispatch_floating(x.dtype(), "bn_relu_max_pool", [&]<typename T>() { run_forward<T>(state, options, y, saved); });
  if (!should_record({&x, &state.weight, &state.bias})) return y;
  record("bn_relu_max_pool", {&x, &state.weight, &state.bias}, {&y},
         [saved = std::move(saved)](Gradients& gradients) mutable {
           dispatch_floating(saved.x.dtype(), "bn_relu_max_pool",
                             [&]<typename T>() { run_backward<T>(saved, gradients); });
         });
  return y;
}

}  // namespace engine
