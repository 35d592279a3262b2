#include "engine/ops/relu.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/device_path.h"
#include "kernels/relu/relu.h"
#include "kernels/relu/relu_cuda.h"

namespace engine {
namespace {

void forward(const Tensor& x, const Tensor& y) {
  if (on_accelerator(x)) {
    return dispatch_device(x.dtype(), "relu", [&]<typename T>() {
      kernels::relu_forward_cuda(x.data<T>(), y.data<T>(), x.numel(), stream_of(x));
    });
  }
  dispatch_floating(x.dtype(), "relu",
                    [&]<typename T>() { kernels::relu_forward_cpu(x.data<T>(), y.data<T>(), x.numel()); });
}

void backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x) {
  if (on_accelerator(y)) {
    return dispatch_device(y.dtype(), "relu", [&]<typename T>() {
      kernels::relu_backward_cuda(y.data<T>(), grad_y.data<T>(), grad_x.data<T>(), y.numel(), stream_of(y));
    });
  }
  dispatch_floating(y.dtype(), "relu", [&]<typename T>() {
    kernels::relu_backward_cpu(y.data<T>(), grad_y.data<T>(), grad_x.data<T>(), y.numel());
  });
}

}  // namespace

Tensor relu(const Tensor& x) {
  check_input("relu", "x", x);
  Tensor y = x.new_empty(x.shape(), x.dtype());
  forward(x, y);
  if (!should_record({&x})) return y;
  record("relu", {&x}, {&y}, [saved_y = y.detach()](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = grad_y.owns_alone() ? grad_y : grad_y.new_empty(grad_y.shape(), grad_y.dtype());
    backward(saved_y, grad_y, grad_x);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
