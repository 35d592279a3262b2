#include "engine/ops/dropout.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "kernels/dropout/dropout.h"

namespace engine {

Tensor dropout(const Tensor& x, const DropoutOptions& options) {
  check_input("dropout", "x", x);
  ENGINE_CHECK(options.probability >= 0 && options.probability <= 1, "[dropout] probability: got {}, expected 0 to 1",
               options.probability);
  if (!options.training) return x;
  const kernels::Dropout spec{options.probability, options.seed, options.offset};
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "dropout",
                 [&]<typename T>() { kernels::dropout_forward_cpu(spec, x.data<T>(), y.data<T>(), x.numel()); });
  if (!should_record({&x})) return y;
  record("dropout", {&x}, {&y}, [spec](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = grad_y.owns_alone() ? grad_y : Tensor::empty(grad_y.shape(), grad_y.dtype());
    dispatch_float(grad_y.dtype(), "dropout", [&]<typename T>() {
      kernels::dropout_backward_cpu(spec, grad_y.data<T>(), grad_x.data<T>(), grad_y.numel());
    });
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
