// Every op on FP16 and BF16 tensors of the CPU against the plain FP32 kernels on the same numbers: result and
// gradients.

#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/cpu_path.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "tests/ops/op_cases.h"
#include "tests/support/errors.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

double roundoff_of(DType dtype) { return dtype == DType::f16 ? kUnitRoundoffF16 : kUnitRoundoffBf16; }

/// Puts the fast path back.
struct ReferencePath {
  ReferencePath() { set_cpu_path(CpuPath::reference); }
  ~ReferencePath() { set_cpu_path(CpuPath::fast); }
  ReferencePath(const ReferencePath&) = delete;
  ReferencePath& operator=(const ReferencePath&) = delete;
};

OpResults truth(const OpCase& op, DType dtype) {
  const ReferencePath reference;
  return run_op(op, Device::cpu(), dtype, true);
}

/// Shapes that take each of the convolution's algorithms, and channels that are no whole vectors.
std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = op_cases();
  const auto add_conv = [&](const char* name, const Shape& x, const Shape& weight, const Conv2dOptions& options) {
    cases.push_back({name,
                     {x, weight, Shape{weight[0]}},
                     [options](const Inputs& in) { return conv2d(in[0], in[1], in[2], options); },
                     weight[1] * weight[2] * weight[3]});
  };
  add_conv("conv2d_winograd", {2, 18, 17, 32}, {48, 3, 3, 32}, {.padding = 1});
  add_conv("conv2d_pixels", {2, 9, 7, 80}, {600, 1, 1, 80}, {});
  add_conv("conv2d_deep", {1, 6, 6, 320}, {24, 1, 1, 320}, {.stride = 2});
  add_conv("conv2d_stem", {3, 30, 30, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3});
  add_conv("conv2d_groups", {2, 9, 9, 8}, {12, 3, 3, 4}, {.padding = 1, .groups = 2});
  add_conv("conv2d_dilation", {2, 11, 11, 16}, {16, 3, 3, 16}, {.padding = 2, .dilation = 2});
  const Shape odd{2, 9, 7, 19}, channels{19};
  cases.push_back({"relu_odd", {odd}, [](const Inputs& in) { return relu(in[0]); }});
  cases.push_back({"max_pool2d_odd", {odd}, [](const Inputs& in) { return max_pool2d(in[0], {2, 1, 1}); }});
  cases.push_back({"avg_pool2d_odd", {odd}, [](const Inputs& in) { return avg_pool2d(in[0], {3, 2, 1}); }});
  cases.push_back({"global_avg_pool_odd", {odd}, [](const Inputs& in) { return global_avg_pool(in[0]); }});
  cases.push_back({"batch_norm_odd",
                   {odd, channels, channels},
                   [](const Inputs& in) { return batch_norm(in[0], norm_state(in)); },
                   126,
                   1});
  cases.push_back({"bn_relu_max_pool_odd",
                   {odd, channels, channels},
                   [](const Inputs& in) {
                     return bn_relu_max_pool(in[0], norm_state(in), {}, {2, 1, 1});
                   },
                   126,
                   1});
  const auto residual = [](const Inputs& in, bool training) {
    return batch_norm(in[0], norm_state(in), {.training = training, .relu = true}, cast(in[3], in[0].dtype()));
  };
  cases.push_back({"batch_norm_residual",
                   {odd, channels, channels, odd},
                   [=](const Inputs& in) { return residual(in, true); },
                   126,
                   1});
  cases.push_back({"batch_norm_residual_evaluation",
                   {odd, channels, channels, odd},
                   [=](const Inputs& in) { return residual(in, false); },
                   126,
                   1});
  cases.push_back({"matmul", {{9, 20}, {20, 33}}, [](const Inputs& in) { return matmul(in[0], in[1]); }, 33});
  return cases;
}

class NarrowOpsTest : public ::testing::TestWithParam<std::tuple<size_t, DType>> {};

TEST_P(NarrowOpsTest, RoundsWhatFp32Gives) {
  const OpCase op = all_cases()[std::get<0>(GetParam())];
  const DType dtype = std::get<1>(GetParam());
  const OpResults want = truth(op, dtype), got = run_op(op, Device::cpu(), dtype, false);
  // One rounding of a result that is right in FP32; chains of ops round in between.
  const double tol =
      tolerance(roundoff_of(dtype), 1, OpClass::elementwise) / 4 + tolerance<float>(op.reduction, OpClass::winograd);
  ExpectClose(got.y, want.y, tol, "y");
  for (size_t i = 0; i < want.gradients.size(); ++i) {
    ExpectClose(got.gradients[i], want.gradients[i], tol, "gradient " + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, NarrowOpsTest,
                         ::testing::Combine(::testing::Range<size_t>(0, all_cases().size()),
                                            ::testing::Values(DType::f16, DType::bf16)),
                         [](const auto& instance) {
                           return all_cases()[std::get<0>(instance.param)].name + "_" +
                                  name_of(std::get<1>(instance.param));
                         });

class NarrowTypeTest : public ::testing::TestWithParam<DType> {};

TEST_P(NarrowTypeTest, LossGradientAndHitsAreThoseOfFp32) {
  const DType dtype = GetParam();
  const Tensor labels = Tensor::from_vector<int64_t>({5}, {0, 6, 3, 2, 2});
  Tensor narrow = cast(Tensor::from_vector<float>({5, 7}, uniform<float>(5 * 7, 3, -3, 3)), dtype);
  Tensor wide = cast(narrow, DType::f32);
  set_requires_grad(narrow);
  set_requires_grad(wide);
  const CrossEntropyOptions options{.label_smoothing = 0.1, .normalizer = 4};
  const Tensor got = softmax_cross_entropy(narrow, labels, options);
  const Tensor want = softmax_cross_entropy(wide, labels, options);
  EXPECT_EQ(got.item(), want.item());  // both in double, of the same numbers
  backward(got, Tensor::full(Shape{}, 2.5, DType::f64));
  backward(want, Tensor::full(Shape{}, 2.5, DType::f64));
  EXPECT_EQ(grad_of(narrow).dtype(), dtype);
  EXPECT_EQ(cast(grad_of(narrow), DType::f32).to_vector<float>(),
            cast(cast(grad_of(wide), dtype), DType::f32).to_vector<float>());
  for (const int64_t k : {1, 3}) EXPECT_EQ(topk_correct(narrow, labels, k), topk_correct(wide, labels, k)) << k;
  EXPECT_EQ(softmax_row(narrow, 1), softmax_row(wide, 1));
}

TEST_P(NarrowTypeTest, NaNAndOverflowStay) {
  const DType dtype = GetParam();
  std::vector<float> values(40, 1.0F);
  values[3] = std::nanf("");
  values[35] = -2;
  const Tensor x = cast(Tensor::from_vector<float>({40}, values), dtype);
  const auto y = cast(relu(x), DType::f32).to_vector<float>();
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[35], 0.0F);
  EXPECT_EQ(y[39], 1.0F);
  const double largest = dtype == DType::f16 ? 65504 : 3.3895313892515355e38;
  const Tensor big = cast(Tensor::full({40}, largest), dtype);
  for (const float sum : cast(add(big, big), DType::f32).to_vector<float>()) EXPECT_TRUE(std::isinf(sum));
}

TEST_P(NarrowTypeTest, BatchNormWantsItsParametersInFp32) {
  const Tensor x = Tensor::zeros({4, 3}, GetParam()), half = Tensor::zeros({3}, GetParam());
  ExpectError<Error>(
      [&] {
        batch_norm(x, {half, half, half, half});
      },
      {"[batch_norm] weight", name_of(GetParam()), "expected f32"});
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowTypeTest, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

}  // namespace
}  // namespace engine::testing
