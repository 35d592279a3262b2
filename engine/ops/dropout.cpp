#include "engine/ops/dropout.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/device_path.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_cuda.h"

namespace engine {
namespace {

void forward(const kernels::Dropout& spec, const Tensor& x, const Tensor& y) {
  if (on_accelerator(x)) {
    return dispatch_device(x.dtype(), "dropout", [&]<typename T>() {
      kernels::dropout_forward_cuda<T>({.spec = spec, .x = x.data<T>(), .y = y.data<T>(), .count = x.numel()},
                                       stream_of(x));
    });
  }
  dispatch_floating(x.dtype(), "dropout",
                    [&]<typename T>() { kernels::dropout_forward_cpu(spec, x.data<T>(), y.data<T>(), x.numel()); });
}

void backward(const kernels::Dropout& spec, const Tensor& grad_y, const Tensor& grad_x) {
  if (on_accelerator(grad_y)) {
    return dispatch_device(grad_y.dtype(), "dropout", [&]<typename T>() {
      kernels::dropout_backward_cuda<T>(
          {.spec = spec, .x = grad_y.data<T>(), .y = grad_x.data<T>(), .count = grad_y.numel()}, stream_of(grad_y));
    });
  }
  dispatch_floating(grad_y.dtype(), "dropout", [&]<typename T>() {
    kernels::dropout_backward_cpu(spec, grad_y.data<T>(), grad_x.data<T>(), grad_y.numel());
  });
}

}  // namespace

Tensor dropout(const Tensor& x, const DropoutOptions& options) {
  check_input("dropout", "x", x);
  ENGINE_CHECK(options.probability >= 0 && options.probability <= 1, "[dropout] probability: got {}, expected 0 to 1",
               options.probability);
  if (!options.training) return x;
  const kernels::Dropout spec{options.probability, options.seed, options.offset};
  Tensor y = x.new_empty(x.shape(), x.dtype());
  forward(spec, x, y);
  if (!should_record({&x})) return y;
  record("dropout", {&x}, {&y}, [spec](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = grad_y.owns_alone() ? grad_y : grad_y.new_empty(grad_y.shape(), grad_y.dtype());
    backward(spec, grad_y, grad_x);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
