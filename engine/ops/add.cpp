#include "engine/ops/add.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "kernels/add/add.h"

namespace engine {

Tensor add(const Tensor& a, const Tensor& b) {
  check_input("add", "a", a);
  check_shape("add", "b", b, a.shape(), a);
  Tensor y = Tensor::empty(a.shape(), a.dtype());
  dispatch_float(a.dtype(), "add",
                 [&]<typename T>() { kernels::add_forward_cpu(a.data<T>(), b.data<T>(), y.data<T>(), a.numel()); });
  if (!should_record({&a, &b})) return y;
  record("add", {&a, &b}, {&y}, [](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0);
    for (const int input : {0, 1}) {
      if (gradients.wanted(input)) gradients.set(input, grad_y);
    }
  });
  return y;
}

}  // namespace engine
