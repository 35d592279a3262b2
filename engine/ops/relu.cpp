#include "engine/ops/relu.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "kernels/relu/relu.h"

namespace engine {

Tensor relu(const Tensor& x) {
  check_input("relu", "x", x);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "relu",
                 [&]<typename T>() { kernels::relu_forward_cpu(x.data<T>(), y.data<T>(), x.numel()); });
  if (!should_record({&x})) return y;
  record("relu", {&x}, {&y}, [saved_y = y.detach()](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = grad_y.owns_alone() ? grad_y : Tensor::empty(grad_y.shape(), grad_y.dtype());
    dispatch_float(grad_y.dtype(), "relu", [&]<typename T>() {
      kernels::relu_backward_cpu(saved_y.data<T>(), grad_y.data<T>(), grad_x.data<T>(), grad_y.numel());
    });
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
