#include "kernels/avg_pool2d/avg_pool2d.h"
#include "kernels/avg_pool2d/avg_pool2d_cuda.h"
#include "tests/kernels/device_operand.h"
#include "tests/kernels/pool_shapes.h"

namespace engine::testing {
namespace {

using kernels::Pool2dShape;

template <typename T>
class AvgPool2dDevice : public DeviceTest {};
TYPED_TEST_SUITE(AvgPool2dDevice, StorageTypes);

TYPED_TEST(AvgPool2dDevice, EqualsReference) {
  for (const Pool2dShape& shape : pool_shapes()) {
    const std::vector<float> values = rounded<TypeParam>(uniform<float>(in_size(shape), 1));
    const std::vector<float> grads = rounded<TypeParam>(uniform<float>(out_size(shape), 2));
    std::vector<double> want(grads.size()), want_grad(values.size());
    kernels::avg_pool2d_forward_cpu(shape, converted<double>(values).data(), want.data());
    kernels::avg_pool2d_backward_cpu(shape, converted<double>(grads).data(), want_grad.data());
    const double tol = tolerance(kUnitRoundoff<TypeParam>, shape.kernel_h * shape.kernel_w, OpClass::reduction);
    for (const size_t shift : {0, 1}) {
      const Operand<TypeParam> x(stored<TypeParam>(values), shift), y(out_size(shape), 0);
      kernels::avg_pool2d_forward_cuda(shape, x.data(), y.data(), this->stream());
      ExpectClose(y.floats(), want, tol, "forward");
      const Operand<TypeParam> grad_y(stored<TypeParam>(grads), 0), grad_x(in_size(shape), shift);
      kernels::avg_pool2d_backward_cuda(shape, grad_y.data(), grad_x.data(), this->stream());
      ExpectClose(grad_x.floats(), want_grad, tol, "backward");
    }
  }
}

struct Pictures {
  int64_t n, spatial, c;
};
const std::vector<Pictures> kPictures = {{0, 4, 8}, {1, 1, 1},    {2, 49, 512},  {3, 7, 10},
                                         {2, 6, 8}, {5, 100, 33}, {1, 49, 2048}, {2050, 2, 1}};

TYPED_TEST(AvgPool2dDevice, GlobalEqualsReference) {
  for (const auto& [n, spatial, c] : kPictures) {
    const std::vector<float> values = rounded<TypeParam>(uniform<float>(n * spatial * c, 1));
    const std::vector<float> grads = rounded<TypeParam>(uniform<float>(n * c, 2));
    std::vector<double> want(grads.size()), want_grad(values.size());
    kernels::global_avg_pool_forward_cpu(converted<double>(values).data(), want.data(), n, spatial, c);
    kernels::global_avg_pool_backward_cpu(converted<double>(grads).data(), want_grad.data(), n, spatial, c);
    const double tol = tolerance(kUnitRoundoff<TypeParam>, spatial, OpClass::reduction);
    for (const size_t shift : {0, 1}) {
      const Operand<TypeParam> x(stored<TypeParam>(values), shift), y(n * c, 0);
      kernels::global_avg_pool_forward_cuda(x.data(), y.data(), n, spatial, c, this->stream());
      ExpectClose(y.floats(), want, tol, "forward");
      const Operand<TypeParam> grad_y(stored<TypeParam>(grads), 0), grad_x(n * spatial * c, shift);
      kernels::global_avg_pool_backward_cuda(grad_y.data(), grad_x.data(), n, spatial, c, this->stream());
      ExpectClose(grad_x.floats(), want_grad, tol, "backward");
    }
  }
}

TYPED_TEST(AvgPool2dDevice, NanStaysInItsChannel) {
  std::vector<float> values(static_cast<size_t>(2 * 49 * 64), 1), want(128, 1);
  values[49 * 64 + 30 * 64 + 9] = want[64 + 9] = std::numeric_limits<float>::quiet_NaN();
  const Operand<TypeParam> x(stored<TypeParam>(values), 0), y(128, 0);
  kernels::global_avg_pool_forward_cuda(x.data(), y.data(), 2, 49, 64, this->stream());
  ExpectClose(y.floats(), want, tolerance(kUnitRoundoff<TypeParam>, 49, OpClass::reduction));
}

}  // namespace
}  // namespace engine::testing
