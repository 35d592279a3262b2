#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/device_update.h"

namespace engine::testing {
namespace {

using kernels::NormPartial;
using kernels::StepState;

template <typename T>
class NormDevice : public DeviceTest {
 protected:
  StepState decided(const std::vector<T>& gradients, const StepState& settings = {}) {
    const DeviceArray<T> device_gradients(gradients);
    DeviceStep state(settings);
    state.decide(device_gradients, stream());
    return state.read();
  }
};
TYPED_TEST_SUITE(NormDevice, StorageTypes);

TYPED_TEST(NormDevice, NormOfAnySize) {
  for (const int64_t count : {0, 1, 7, 8, 9, 255, 4096, 4097, 100003}) {
    const std::vector<TypeParam> gradients = stored<TypeParam>(uniform<float>(count, 3));
    const std::vector<double> values = converted<double>(as_floats(gradients));
    const StepState state = this->decided(gradients);
    ExpectClose(std::vector<float>{state.grad_norm},
                std::vector<double>{std::sqrt(kernels::sum_of_squares_cpu(values.data(), count).value)},
                tolerance<float>(1, OpClass::elementwise), "norm");
    EXPECT_EQ(state.applied, 1);
    EXPECT_EQ(state.applied_steps, 1);
    EXPECT_EQ(state.grad_factor, 1);
  }
}

// More than a grid of blocks can read in one go.
TYPED_TEST(NormDevice, EqualFromRunToRun) {
  const int64_t count = 5000011;
  const DeviceArray<TypeParam> gradients(stored<TypeParam>(uniform<float>(count, 4)));
  const DeviceArray<NormPartial> partials(kernels::kMaxNormPartials);
  ASSERT_EQ(kernels::norm_partials(count), kernels::kMaxNormPartials);
  std::vector<double> runs[2];
  for (std::vector<double>& sums : runs) {
    kernels::gradient_norm_partials_cuda(gradients.data(), count, partials.data(), this->stream());
    for (const NormPartial& partial : partials.read()) sums.push_back(partial.sum_of_squares);
  }
  ExpectSameBits(runs[0], runs[1]);
  double sum = 0;
  for (const double value : runs[0]) sum += value;
  const std::vector<double> values = converted<double>(as_floats(gradients.read()));
  ExpectClose(std::vector<double>{sum}, std::vector<double>{kernels::sum_of_squares_cpu(values.data(), count).value},
              tolerance<double>(count, OpClass::reduction), "sum");
}

TYPED_TEST(NormDevice, FindsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {size_t{0}, size_t{5000}, size_t{10002}}) {
      std::vector<float> values = uniform<float>(10003, 5);
      values[at] = bad;
      const StepState state = this->decided(stored<TypeParam>(values), {.applied_steps = 3});
      EXPECT_EQ(state.applied, 0) << bad << " at " << at;
      EXPECT_EQ(state.applied_steps, 3);
      EXPECT_EQ(state.grad_factor, 0);
      EXPECT_FALSE(std::isfinite(state.grad_norm));
    }
  }
}

TYPED_TEST(NormDevice, UnscalesThenClips) {
  const std::vector<TypeParam> gradients = stored<TypeParam>({1.25F * 512, 0, 3 * 512});
  const StepState state = this->decided(gradients, {.clip_norm = 1, .scaling = {.scale = 512}});
  const double tol = tolerance<float>(1, OpClass::elementwise);
  ExpectClose(std::vector<float>{state.grad_norm}, std::vector<float>{3.25F}, tol, "norm");
  ExpectClose(std::vector<float>{state.grad_factor}, std::vector<double>{1 / (3.25 + 1e-6) / 512}, tol, "factor");
  EXPECT_EQ(this->decided(gradients, {.clip_norm = 4, .scaling = {.scale = 512}}).grad_factor, 1.0F / 512)
      << "below the limit";
}

class NormOnDevice : public DeviceTest {};

TEST_F(NormOnDevice, SquaresThatOverflowAFloat) {
  const DeviceArray<float> gradients(std::vector<float>(100, 1e30F));
  DeviceStep state({.clip_norm = 1});
  state.decide(gradients, stream());
  const StepState found = state.read();
  EXPECT_EQ(found.applied, 1);
  const double tol = tolerance<float>(1, OpClass::elementwise);
  ExpectClose(std::vector<float>{found.grad_norm, found.grad_factor * 1e31F}, std::vector<float>{1e31F, 1e31F * 1e-31F},
              tol);
}

TEST_F(NormOnDevice, ALossThatIsNotFiniteIsNotApplied) {
  const DeviceArray<float> gradients(std::vector<float>{3, 4});
  for (const float loss : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    DeviceStep state({.applied_steps = 7});
    state.set_loss(loss);
    state.decide(gradients, stream());
    EXPECT_EQ(state.read().applied, 0);
    EXPECT_EQ(state.read().applied_steps, 7);
    EXPECT_EQ(state.read().grad_norm, 5);
    EXPECT_EQ(state.read().halted, 1);
    // Nothing is applied behind it until the host says so.
    state.set_loss(1);
    state.decide(gradients, stream());
    EXPECT_EQ(state.read().applied, 0);
    EXPECT_EQ(state.read().applied_steps, 7);
    EXPECT_EQ(state.read().grad_factor, 0);
    state.go_on();
    state.decide(gradients, stream());
    EXPECT_EQ(state.read().halted, 0);
    EXPECT_EQ(state.read().applied, 1);
    EXPECT_EQ(state.read().applied_steps, 8);
  }
}

TEST_F(NormOnDevice, ADynamicScaleFollowsWhatHappens) {
  const DeviceArray<float> good(std::vector<float>{3, 4});
  const DeviceArray<float> bad(std::vector<float>{3, std::numeric_limits<float>::infinity()});
  DeviceStep state({.dynamic_scale = 1, .most_skips = 3, .scaling = {.scale = 8, .good_steps = 1998}});
  const std::vector<std::pair<bool, float>> steps = {{true, 8}, {true, 16}, {false, 8},
                                                     {true, 8}, {false, 4}, {false, 2}};
  for (const auto& [finite, scale] : steps) {
    state.decide(finite ? good : bad, stream());
    EXPECT_EQ(state.read().scaling.scale, scale);
    EXPECT_EQ(state.read().applied, finite ? 1 : 0);
    EXPECT_EQ(state.read().halted, 0);
  }
  EXPECT_EQ(state.read().scaling.skipped, 3);
  EXPECT_EQ(state.read().applied_steps, 3);
  state.decide(bad, stream());
  EXPECT_EQ(state.read().halted, 1) << "three in a row";
  EXPECT_EQ(state.read().scaling.scale, 1);
  // Behind it nothing counts until the host has seen it.
  state.decide(bad, stream());
  EXPECT_EQ(state.read().scaling.skipped, 4);
}

// Gradients of 16-bit weights, and of what stays in float, in buffers of their own.
TEST_F(NormOnDevice, BuffersOfSeveralTypes) {
  const DeviceArray<kernels::Half> narrow(stored<kernels::Half>(std::vector<float>(10000, 0.03F)));
  const DeviceArray<float> wide(std::vector<float>{3, 0, 0, 4, 0});
  const int first = kernels::norm_partials(10000), count = first + kernels::norm_partials(5);
  ASSERT_EQ(count, 4);
  const DeviceArray<NormPartial> partials(static_cast<size_t>(count));
  const DeviceArray<StepState> state(std::vector<StepState>(1));
  kernels::gradient_norm_partials_cuda(narrow.data(), 10000, partials.data(), stream());
  kernels::gradient_norm_partials_cuda(wide.data(), 5, partials.data() + first, stream());
  kernels::decide_step_cuda(state.data(), partials.data(), count, stream());
  const auto value = static_cast<double>(static_cast<float>(kernels::Half(0.03F)));
  ExpectClose(std::vector<float>{state.read()[0].grad_norm}, std::vector<double>{std::sqrt(1e4 * value * value + 25)},
              tolerance<float>(1, OpClass::elementwise));
}

}  // namespace
}  // namespace engine::testing
