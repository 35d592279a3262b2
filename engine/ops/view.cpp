#include "engine/ops/view.h"

#include "engine/autograd/node.h"
#include "engine/core/error.h"

namespace engine {
namespace {

void check_defined(const char* op, const Tensor& x) {
  ENGINE_CHECK(x.defined(), "[{}] x: got an undefined tensor, expected values", op);
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  check_defined("reshape", x);
  ENGINE_CHECK(x.is_contiguous(), "[reshape] x: got strides with gaps, expected a contiguous tensor");
  ENGINE_CHECK(shape.numel() == x.numel(), "[reshape] shape: got {}, expected as many elements as {}", shape.str(),
               x.shape().str());
  Tensor y = x.view(shape);
  if (!should_record({&x})) return y;
  record("reshape", {&x}, {&y}, [from = x.shape()](Gradients& gradients) {
    gradients.set(0, gradients.take_output(0).contiguous().view(from));
  });
  return y;
}

Tensor flatten(const Tensor& x) {
  check_defined("flatten", x);
  ENGINE_CHECK(x.rank() >= 1, "[flatten] x: got {}, expected a batch axis", x.shape().str());
  const int64_t n = x.dim(0);
  int64_t rest = 1;
  for (int axis = 1; axis < x.rank(); ++axis) rest *= x.dim(axis);
  return reshape(x, Shape{n, rest});
}

Tensor transpose(const Tensor& x, int a, int b) {
  check_defined("transpose", x);
  for (const int axis : {a, b}) {
    ENGINE_CHECK(axis >= -x.rank() && axis < x.rank(), "[transpose] axis: got {}, expected one of {}", axis,
                 x.shape().str());
  }
  Tensor y = x.transpose(a, b);
  if (!should_record({&x})) return y;
  record("transpose", {&x}, {&y},
         [a, b](Gradients& gradients) { gradients.set(0, gradients.take_output(0).transpose(a, b).contiguous()); });
  return y;
}

Tensor narrow(const Tensor& x, int64_t begin, int64_t length) {
  check_defined("narrow", x);
  ENGINE_CHECK(x.rank() >= 1 && begin >= 0 && length >= 0 && begin <= x.dim(0) - length,
               "[narrow] x: got {} indices from {}, expected a part of {}", length, begin, x.shape().str());
  Tensor y = x.narrow(0, begin, length);
  if (!should_record({&x})) return y;
  record("narrow", {&x}, {&y}, [shape = x.shape(), begin, length](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = Tensor::zeros(shape, grad_y.dtype(), MemoryCategory::activations, grad_y.device());
    grad_x.narrow(0, begin, length).copy_from(grad_y);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
