#include "kernels/adam/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::Adam;
using kernels::adam_step_cpu;

template <typename T>
class AdamCase : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AdamCase, Types);

TYPED_TEST(AdamCase, H_NUM_07_EpsilonStandsOutsideOfTheCorrection) {
  std::vector<TypeParam> w = {0}, m = {0}, v = {0};
  const std::vector<TypeParam> grad = {TypeParam(1e-8)};
  const double wanted[] = {-0.0005, -0.0010, -0.0015};
  for (int64_t step = 1; step <= 3; ++step) {
    adam_step_cpu<TypeParam>({.step = step}, w.data(), grad.data(), m.data(), v.data(), 1);
    // 1e-9 of the case, at values of about 1e-3.
    ExpectClose(std::vector<double>{w[0]}, std::vector<double>{wanted[step - 1]},
                tolerance<float>(1, OpClass::transcendental), "step");
  }
}

// torch.optim.Adam and AdamW step by step, in double, on one element.
struct OneElement {
  double w, m = 0, v = 0;
  void step(const Adam& spec, double grad) {
    double g = grad * spec.grad_scale;
    if (spec.decoupled) {
      w *= 1 - spec.lr * spec.weight_decay;
    } else {
      g += spec.weight_decay * w;
    }
    m = spec.beta1 * m + (1 - spec.beta1) * g;
    v = spec.beta2 * v + (1 - spec.beta2) * g * g;
    const auto t = static_cast<double>(spec.step);
    const double m_hat = m / (1 - std::pow(spec.beta1, t)), v_hat = v / (1 - std::pow(spec.beta2, t));
    w -= spec.lr * m_hat / (std::sqrt(v_hat) + spec.eps);
  }
};

template <typename T>
void expect_trajectory(Adam spec, int64_t count) {
  std::vector<T> w = uniform<T>(count, 1), m(w.size()), v(w.size());
  std::vector<OneElement> want;
  for (const T value : w) want.push_back({.w = static_cast<double>(value)});
  const int steps = 5;
  for (spec.step = 1; spec.step <= steps; ++spec.step) {
    const std::vector<T> grad = uniform<T>(count, static_cast<uint64_t>(10 + spec.step), 0.25, 1);
    adam_step_cpu(spec, w.data(), grad.data(), m.data(), v.data(), count);
    for (size_t i = 0; i < want.size(); ++i) want[i].step(spec, grad[i]);
  }
  std::vector<T> values, firsts, seconds;
  for (const OneElement& element : want) {
    values.push_back(static_cast<T>(element.w));
    firsts.push_back(static_cast<T>(element.m));
    seconds.push_back(static_cast<T>(element.v));
  }
  const double tol = tolerance<T>(steps, OpClass::transcendental);
  ExpectClose(w, values, tol, "w");
  ExpectClose(m, firsts, tol, "exp_avg");
  ExpectClose(v, seconds, tol, "exp_avg_sq");
}

TYPED_TEST(AdamCase, FollowsTorchOnAnySize) {
  for (const int64_t count : {0, 1, 7, 16, 33, 50001}) {
    expect_trajectory<TypeParam>({.lr = 0.01}, count);
    expect_trajectory<TypeParam>({.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .grad_scale = 0.5}, count);
    expect_trajectory<TypeParam>({.lr = 0.01, .weight_decay = 0.1}, count);
    expect_trajectory<TypeParam>({.lr = 0.01, .weight_decay = 0.1, .decoupled = true}, count);
  }
}

TYPED_TEST(AdamCase, PartsOfABufferGiveTheWhole) {
  const Adam spec{.weight_decay = 0.1, .decoupled = true, .step = 3};
  const std::vector<TypeParam> grad = uniform<TypeParam>(1000, 2), w = uniform<TypeParam>(1000, 1);
  const std::vector<TypeParam> m = uniform<TypeParam>(1000, 3), v = uniform<TypeParam>(1000, 4, 0, 1);
  std::vector<TypeParam> whole = w, m1 = m, v1 = v, parts = w, m2 = m, v2 = v;
  adam_step_cpu(spec, whole.data(), grad.data(), m1.data(), v1.data(), 1000);
  for (const auto& [begin, end] : {std::pair{0, 13}, std::pair{13, 400}, std::pair{400, 1000}}) {
    adam_step_cpu(spec, parts.data() + begin, grad.data() + begin, m2.data() + begin, v2.data() + begin, end - begin);
  }
  ExpectSameBits(parts, whole);
  ExpectSameBits(m2, m1);
  ExpectSameBits(v2, v1);
}

}  // namespace
}  // namespace engine::testing
