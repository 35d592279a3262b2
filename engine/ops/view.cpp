#include "engine/ops/view.h"

#include "engine/autograd/node.h"
#include "engine/core/error.h"

namespace engine {

Tensor reshape(const Tensor& x, const Shape& shape) {
  Tensor y = x.view(shape);
  if (!should_record({&x})) return y;
  record("reshape", {&x}, {&y}, [from = x.shape()](Gradients& gradients) {
    gradients.set(0, gradients.take_output(0).contiguous().view(from));
  });
  return y;
}

Tensor flatten(const Tensor& x) {
  ENGINE_CHECK(x.rank() >= 1, "[flatten] x: got {}, expected a batch axis", x.shape().str());
  const int64_t n = x.dim(0);
  int64_t rest = 1;
  for (int axis = 1; axis < x.rank(); ++axis) rest *= x.dim(axis);
  return reshape(x, Shape{n, rest});
}

Tensor transpose(const Tensor& x, int a, int b) {
  Tensor y = x.transpose(a, b);
  if (!should_record({&x})) return y;
  record("transpose", {&x}, {&y},
         [a, b](Gradients& gradients) { gradients.set(0, gradients.take_output(0).transpose(a, b).contiguous()); });
  return y;
}

Tensor narrow(const Tensor& x, int64_t begin, int64_t length) {
  Tensor y = x.narrow(0, begin, length);
  if (!should_record({&x})) return y;
  record("narrow", {&x}, {&y}, [shape = x.shape(), begin, length](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = Tensor::zeros(shape, grad_y.dtype());
    grad_x.narrow(0, begin, length).copy_from(grad_y);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
