#include "engine/ops/add.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/device_path.h"
#include "kernels/add/add.h"
#include "kernels/add/add_cuda.h"

namespace engine {
namespace {

void forward(const Tensor& a, const Tensor& b, const Tensor& y) {
  if (on_accelerator(a)) {
    return dispatch_device(a.dtype(), "add", [&]<typename T>() {
      kernels::add_forward_cuda(a.data<T>(), b.data<T>(), y.data<T>(), a.numel(), stream_of(a));
    });
  }
  dispatch_floating(a.dtype(), "add",
                    [&]<typename T>() { kernels::add_forward_cpu(a.data<T>(), b.data<T>(), y.data<T>(), a.numel()); });
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  check_input("add", "a", a);
  check_shape("add", "b", b, a.shape(), a);
  Tensor y = a.new_empty(a.shape(), a.dtype());
  forward(a, b, y);
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
