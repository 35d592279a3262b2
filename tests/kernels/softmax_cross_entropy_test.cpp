#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::SoftmaxCrossEntropy;

template <typename T>
double loss_of(const SoftmaxCrossEntropy& spec, const std::vector<T>& logits, const std::vector<int64_t>& labels) {
  double loss = std::numeric_limits<double>::quiet_NaN();
  kernels::softmax_cross_entropy_forward_cpu(spec, logits.data(), labels.data(), &loss);
  return loss;
}

template <typename T>
std::vector<T> gradient_of(const SoftmaxCrossEntropy& spec, const std::vector<T>& logits,
                           const std::vector<int64_t>& labels, double grad_loss = 1) {
  std::vector<T> gradient = unwritten<T>(spec.rows * spec.classes);
  kernels::softmax_cross_entropy_backward_cpu(spec, logits.data(), labels.data(), grad_loss, gradient.data());
  return gradient;
}

template <typename T>
class SoftmaxCrossEntropyCase : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxCrossEntropyCase, Types);

// The handed figures have seven digits.
constexpr double digits() { return 1.0 / (1 << 23); }

TYPED_TEST(SoftmaxCrossEntropyCase, H_NUM_06_LabelSmoothing) {
  const std::vector<TypeParam> logits = {2, 0, -1};
  const SoftmaxCrossEntropy smoothed{.rows = 1, .classes = 3, .label_smoothing = 0.1};
  ExpectClose(std::vector<double>{loss_of(smoothed, logits, {0})}, std::vector<double>{0.3365127}, digits(), "loss", 1);
  ExpectClose(gradient_of(smoothed, logits, {0}),
              std::vector<TypeParam>{TypeParam(-0.0895386), TypeParam(0.0808619), TypeParam(0.0086767)}, digits(),
              "gradient", 1);
  const SoftmaxCrossEntropy plain{.rows = 1, .classes = 3};
  ExpectClose(std::vector<double>{loss_of(plain, logits, {0})}, std::vector<double>{0.1698460}, digits(), "plain", 1);
}

TYPED_TEST(SoftmaxCrossEntropyCase, H_NUM_06_RepeatedSampleCountsTwice) {
  const std::vector<TypeParam> twice = {2, 0, -1, 2, 0, -1}, mixed = {2, 0, -1, 0, 1, 0, 2, 0, -1};
  const SoftmaxCrossEntropy one{.rows = 1, .classes = 3, .label_smoothing = 0.1};
  const SoftmaxCrossEntropy two{.rows = 2, .classes = 3, .label_smoothing = 0.1, .normalizer = 2};
  const SoftmaxCrossEntropy three{.rows = 3, .classes = 3, .label_smoothing = 0.1, .normalizer = 3};
  const double first = loss_of(one, std::vector<TypeParam>{2, 0, -1}, {0});
  const double other = loss_of(one, std::vector<TypeParam>{0, 1, 0}, {2});
  const double tol = tolerance<double>(3, OpClass::reduction);
  ExpectClose(std::vector<double>{loss_of(two, twice, {0, 0})}, std::vector<double>{first}, tol);
  ExpectClose(std::vector<double>{loss_of(three, mixed, {0, 2, 0})}, std::vector<double>{(2 * first + other) / 3}, tol);
}

// Smoothing of 1: the target counts no more than any class.
TYPED_TEST(SoftmaxCrossEntropyCase, H_NUM_06_SmoothingOfOneIsUniform) {
  const SoftmaxCrossEntropy spec{.rows = 1, .classes = 3, .label_smoothing = 1};
  const std::vector<TypeParam> logits = {2, 0, -1};
  EXPECT_EQ(loss_of(spec, logits, {0}), loss_of(spec, logits, {2}));
  ExpectSameBits(gradient_of(spec, logits, {0}), gradient_of(spec, logits, {2}));
}

TEST(SoftmaxCrossEntropy, FiniteDifferences) {
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    for (const int64_t classes : {1, 2, 17}) {
      const SoftmaxCrossEntropy spec{.rows = 5, .classes = classes, .label_smoothing = smoothing, .normalizer = 2.5};
      std::vector<double> logits = uniform<double>(5 * classes, 1, -3, 3);
      const std::vector<int64_t> labels = {0, classes - 1, classes / 2, 0, classes - 1};
      const std::vector<double> gradient = gradient_of(spec, logits, labels, 3);
      const auto loss = [&] { return 3 * loss_of(spec, logits, labels); };
      ExpectClose(gradient, numeric_gradient(logits, loss), tolerance<double>(classes, OpClass::finite_difference));
    }
  }
}

TEST(SoftmaxCrossEntropy, LargeLogitsNeitherOverflowNorLosePrecision) {
  const SoftmaxCrossEntropy spec{.rows = 1, .classes = 3};
  for (const float shift : {-1e8F, -1e4F, 1e4F, 1e8F}) {
    const std::vector<float> logits = {shift, shift, shift - 16};
    const std::vector<double> want = {std::log(2 + std::exp(-16.0))};
    ExpectClose(std::vector<double>{loss_of(spec, logits, {0})}, want, tolerance<double>(3, OpClass::transcendental));
  }
  const std::vector<float> apart = {0, 3e38F, -3e38F};
  EXPECT_EQ(loss_of(spec, apart, {1}), 0);
  EXPECT_TRUE(std::isfinite(loss_of(spec, apart, {2})));
  EXPECT_EQ(gradient_of(spec, apart, {2}), (std::vector<float>{0, 1, -1}));
}

TEST(SoftmaxCrossEntropy, ExcludedClassIsHarmlessWithoutSmoothing) {
  const SoftmaxCrossEntropy spec{.rows = 1, .classes = 3};
  const std::vector<double> logits = {0, -std::numeric_limits<double>::infinity(), 0};
  ExpectClose(std::vector<double>{loss_of(spec, logits, {0})}, std::vector<double>{std::log(2.0)},
              tolerance<double>(3, OpClass::transcendental));
  EXPECT_EQ(gradient_of(spec, logits, {0}), (std::vector<double>{-0.5, 0, 0.5}));
}

TEST(SoftmaxCrossEntropy, NanShows) {
  const SoftmaxCrossEntropy spec{.rows = 1, .classes = 3};
  for (size_t place = 0; place < 3; ++place) {
    std::vector<float> logits = {1, 2, 3};
    logits[place] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(loss_of(spec, logits, {1})));
    for (const float value : gradient_of(spec, logits, {1})) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(SoftmaxCrossEntropy, FloatAgreesWithDoubleAndMayBeInPlace) {
  const SoftmaxCrossEntropy spec{.rows = 64, .classes = 1000, .label_smoothing = 0.1, .normalizer = 64};
  const std::vector<float> logits = uniform<float>(64 * 1000, 1, -8, 8);
  std::vector<int64_t> labels(64);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i * 997 % 1000);
  const std::vector<double> wide = converted<double>(logits);
  EXPECT_EQ(loss_of(spec, logits, labels), loss_of(spec, wide, labels));
  const std::vector<float> gradient = gradient_of(spec, logits, labels);
  ExpectClose(gradient, gradient_of(spec, wide, labels), tolerance<float>(1, OpClass::elementwise));
  std::vector<float> over = logits;
  kernels::softmax_cross_entropy_backward_cpu(spec, over.data(), labels.data(), 1, over.data());
  ExpectSameBits(over, gradient);
}

TEST(SoftmaxCrossEntropy, RefusesLabelsOutsideOfTheClasses) {
  const SoftmaxCrossEntropy spec{.rows = 2, .classes = 3};
  const std::vector<float> logits(6, 0);
  for (const int64_t label : {-1, 3, -100}) {
    EXPECT_THROW(loss_of(spec, logits, {0, label}), std::invalid_argument);
    EXPECT_THROW(gradient_of(spec, logits, {0, label}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace engine::testing
