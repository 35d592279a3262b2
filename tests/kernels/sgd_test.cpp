#include "kernels/sgd/sgd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/norm/norm.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::Sgd;
using kernels::sgd_step_cpu;

template <typename T>
class SgdCase : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SgdCase, Types);

// The gradient carries the loss scale; norm and clipping factor are taken of the unscaled one.
TYPED_TEST(SgdCase, H_NUM_04_UnscaleThenClipThenStep) {
  const double scale = 65536, max_norm = 1;
  const std::vector<TypeParam> grad = {static_cast<TypeParam>(1.2 * scale), static_cast<TypeParam>(1.6 * scale)};
  std::vector<TypeParam> w = {0, 0};
  const double norm = std::sqrt(kernels::sum_of_squares_cpu(grad.data(), 2).value) / scale;
  const double tol = tolerance<TypeParam>(2, OpClass::reduction);
  ExpectClose(std::vector<double>{norm}, std::vector<double>{2.0}, tol, "norm");
  sgd_step_cpu<TypeParam>({.lr = 0.1, .grad_scale = max_norm / norm / scale}, w.data(), grad.data(), nullptr, 2);
  ExpectClose(w, std::vector<TypeParam>{TypeParam(-0.06), TypeParam(-0.08)}, tol, "w");
}

TYPED_TEST(SgdCase, H_NUM_08_DecayIsTheCallersChoice) {
  const std::vector<TypeParam> grad = {0};
  std::vector<TypeParam> decayed = {1}, kept = {1};
  sgd_step_cpu<TypeParam>({.lr = 0.1, .weight_decay = 0.1}, decayed.data(), grad.data(), nullptr, 1);
  sgd_step_cpu<TypeParam>({.lr = 0.1}, kept.data(), grad.data(), nullptr, 1);
  ExpectClose(decayed, std::vector<TypeParam>{TypeParam(0.99)}, tolerance<TypeParam>(1, OpClass::elementwise));
  EXPECT_EQ(kept[0], 1);
}

// torch.optim.SGD step by step, in double, on one element.
struct OneElement {
  double w, buffer = 0;
  void step(const Sgd& spec, double grad) {
    double g = grad * spec.grad_scale + spec.weight_decay * w;
    if (spec.momentum != 0) {
      buffer = spec.first_step ? g : spec.momentum * buffer + g;
      g = spec.nesterov ? g + spec.momentum * buffer : buffer;
    }
    w -= spec.lr * g;
  }
};

template <typename T>
void expect_trajectory(Sgd spec, int64_t count) {
  std::vector<T> w = uniform<T>(count, 1), buffer = unwritten<T>(count);
  std::vector<OneElement> want;
  for (const T value : w) want.push_back({.w = static_cast<double>(value)});
  const int steps = 5;
  for (int step = 0; step < steps; ++step) {
    spec.first_step = step == 0;
    const std::vector<T> grad = uniform<T>(count, static_cast<uint64_t>(10 + step));
    sgd_step_cpu(spec, w.data(), grad.data(), spec.momentum == 0 ? nullptr : buffer.data(), count);
    for (size_t i = 0; i < want.size(); ++i) want[i].step(spec, grad[i]);
  }
  std::vector<T> values, buffers;
  for (const OneElement& element : want) {
    values.push_back(static_cast<T>(element.w));
    buffers.push_back(static_cast<T>(element.buffer));
  }
  ExpectClose(w, values, steps * tolerance<T>(1, OpClass::elementwise), "w");
  if (spec.momentum != 0) ExpectClose(buffer, buffers, steps * tolerance<T>(1, OpClass::elementwise), "buffer");
}

TYPED_TEST(SgdCase, FollowsTorchOnAnySize) {
  for (const int64_t count : {0, 1, 7, 16, 33, 50001}) {
    expect_trajectory<TypeParam>({.lr = 0.1}, count);
    expect_trajectory<TypeParam>({.lr = 0.1, .weight_decay = 0.01, .grad_scale = 0.5}, count);
    expect_trajectory<TypeParam>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, count);
    expect_trajectory<TypeParam>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, count);
  }
}

TYPED_TEST(SgdCase, PartsOfABufferGiveTheWhole) {
  const Sgd spec{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
  const std::vector<TypeParam> grad = uniform<TypeParam>(1000, 2), w = uniform<TypeParam>(1000, 1);
  std::vector<TypeParam> whole = w, parts = w, buffer = grad, part_buffer = grad;
  sgd_step_cpu(spec, whole.data(), grad.data(), buffer.data(), 1000);
  for (const auto& [begin, end] : {std::pair{0, 13}, std::pair{13, 400}, std::pair{400, 1000}}) {
    sgd_step_cpu(spec, parts.data() + begin, grad.data() + begin, part_buffer.data() + begin, end - begin);
  }
  ExpectSameBits(parts, whole);
  ExpectSameBits(part_buffer, buffer);
}

}  // namespace
}  // namespace engine::testing
