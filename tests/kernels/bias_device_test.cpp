#include "kernels/bias/bias.h"
#include "kernels/bias/bias_cuda.h"
#include "kernels/relu/relu.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

struct Matrix {
  int64_t rows, channels;
};
// Fewer and more columns than a warp's threads have, rows for one block and for many.
const std::vector<Matrix> kMatrices = {{0, 8},  {1, 1},   {1, 1000}, {7, 10},   {64, 10},   {3, 33},   {256, 1000},
                                       {5, 24}, {33, 64}, {2049, 8}, {4000, 1}, {3000, 72}, {100, 520}};

template <typename T>
class BiasDevice : public DeviceTest {
 protected:
  std::vector<float> column_sums(const Operand<T>& grad_y, const Matrix& m) {
    const Operand<float> grad_bias(m.channels, 0);
    const DeviceArray<char> workspace(kernels::bias_backward_workspace_bytes(m.rows, m.channels));
    kernels::bias_backward_cuda<T>({.grad_y = grad_y.data(),
                                    .grad_bias = grad_bias.data(),
                                    .rows = m.rows,
                                    .channels = m.channels,
                                    .workspace = workspace.data()},
                                   stream());
    return grad_bias.read();
  }
  using DeviceTest::stream;
};
TYPED_TEST_SUITE(BiasDevice, StorageTypes);

TYPED_TEST(BiasDevice, ForwardEqualsReference) {
  for (const auto& [rows, channels] : kMatrices) {
    for (const size_t shift : {0, 1}) {
      const std::vector<float> values = awkward<TypeParam>(rows * channels, 1),
                               vector = awkward<TypeParam>(channels, 4);
      std::vector<float> want(values.size());
      kernels::bias_forward_cpu(values.data(), vector.data(), want.data(), rows, channels);
      want = rounded<TypeParam>(want);
      for (const bool relu : {false, true}) {
        const Operand<TypeParam> x(stored<TypeParam>(values), shift), bias(stored<TypeParam>(vector), 0);
        const Operand<TypeParam> y(rows * channels, 0);
        kernels::BiasForwardCuda<TypeParam> args{
            .x = x.data(), .bias = bias.data(), .y = y.data(), .rows = rows, .channels = channels, .relu = relu};
        if (relu) kernels::relu_forward_cpu(want.data(), want.data(), rows * channels);
        kernels::bias_forward_cuda(args, this->stream());
        ExpectSameValues(y.floats(), want);
        args.y = x.data();
        kernels::bias_forward_cuda(args, this->stream());
        ExpectSameValues(x.floats(), want, "in place");
      }
    }
  }
}

TYPED_TEST(BiasDevice, BackwardSumsColumns) {
  for (const Matrix& m : kMatrices) {
    const std::vector<float> values = rounded<TypeParam>(uniform<float>(m.rows * m.channels, 1));
    const std::vector<double> wide = converted<double>(values);
    std::vector<double> want(static_cast<size_t>(m.channels));
    if (m.rows > 0) kernels::bias_backward_cpu(wide.data(), want.data(), m.rows, m.channels);
    for (const size_t shift : {0, 1}) {
      const Operand<TypeParam> grad_y(stored<TypeParam>(values), shift);
      const std::vector<float> got = this->column_sums(grad_y, m);
      // Summands of either sign: on the way their sums are about as large as the square root of their number.
      ExpectClose(got, want, tolerance<float>(m.rows, OpClass::reduction), "sums", std::sqrt(m.rows + 1.0));
      ExpectSameBits(this->column_sums(grad_y, m), got, "again");
    }
  }
}

TYPED_TEST(BiasDevice, NanStaysInItsColumn) {
  const Matrix m{.rows = 300, .channels = 40};
  std::vector<float> values(12000, 1);
  values[250 * 40 + 13] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> got = this->column_sums(Operand<TypeParam>(stored<TypeParam>(values), 0), m);
  std::vector<float> want(40, 300);
  want[13] = values[250 * 40 + 13];
  ExpectSameValues(got, want);
}

}  // namespace
}  // namespace engine::testing
