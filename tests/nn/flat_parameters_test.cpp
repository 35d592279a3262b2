#include "engine/nn/flat_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/autograd/backward.h"
#include "engine/ops/linear.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"

namespace engine::testing {
namespace {

Tensor pictures() {
  return Tensor::from_vector({2, kTinySize, kTinySize, kTinyChannels},
                             uniform<float>(2 * kTinySize * kTinySize * kTinyChannels, 1));
}

Tensor loss_of(Module& model) {
  return softmax_cross_entropy(model(pictures()), Tensor::from_vector<int64_t>({2}, {0, 2}));
}

/// Whether every element outside of the parameters is zero.
bool gaps_are_zero(const FlatParameters& flat, const Tensor& buffer) {
  std::vector<float> values = buffer.to_vector<float>();
  for (const FlatRange& range : flat.ranges()) {
    std::fill_n(values.begin() + range.offset, range.count, 0.0F);
  }
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

TEST(FlatParameters, HoldTheValuesInAlignedViews) {
  const auto model = make_tiny_model(), twin = make_tiny_model();
  const FlatParameters flat(*model);
  const auto parameters = model->parameters(), expected = twin->parameters();
  ASSERT_EQ(flat.ranges().size(), parameters.size());
  int64_t end = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const FlatRange& range = flat.ranges()[i];
    EXPECT_EQ(range.parameter.name, parameters[i].name);
    EXPECT_EQ(range.offset % FlatParameters::kAlignment, 0);
    EXPECT_GE(range.offset, end);
    end = range.offset + range.count;
    EXPECT_EQ(parameters[i].tensor.raw(), flat.master().raw() + range.offset * 4);
    EXPECT_EQ(range.parameter.tensor.raw(), parameters[i].tensor.raw());
    EXPECT_TRUE(requires_grad(parameters[i].tensor));
    ExpectSameBits(parameters[i].tensor.to_vector<float>(), expected[i].tensor.to_vector<float>());
  }
  EXPECT_LE(end, flat.size());
  EXPECT_EQ(flat.parameter_count(), 76 + 8 + 435);
  EXPECT_LT(flat.parameter_count(), flat.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(flat.master().raw()) % 64, 0u);
  EXPECT_TRUE(gaps_are_zero(flat, flat.master()));
}

TEST(FlatParameters, GradientsArriveInTheBuffer) {
  const auto model = make_tiny_model(), twin = make_tiny_model();
  FlatParameters flat(*model);
  backward(loss_of(*twin));
  for (int step = 0; step < 2; ++step) {
    flat.clear_gradients();
    backward(loss_of(*model));
    const auto expected = twin->parameters();
    for (size_t i = 0; i < expected.size(); ++i) {
      const FlatRange& range = flat.ranges()[i];
      EXPECT_EQ(grad_of(range.parameter.tensor).raw(), flat.gradients().raw() + range.offset * 4) << i;
      ExpectSameBits(flat.views(flat.gradients())[i].tensor.to_vector<float>(),
                     grad_of(expected[i].tensor).to_vector<float>(), expected[i].name.c_str());
    }
    EXPECT_TRUE(gaps_are_zero(flat, flat.gradients()));
  }
}

TEST(FlatParameters, ClearingForgetsAndFillingMakesZeros) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  flat.gradients().fill(3);
  flat.clear_gradients();
  for (const FlatRange& range : flat.ranges()) EXPECT_FALSE(grad_of(range.parameter.tensor).defined());
  // Only one parameter gets a gradient in this pass; what it held before does not count.
  const Tensor& weight = flat.ranges()[4].parameter.tensor;
  backward(linear(Tensor::full({1, weight.dim(1)}, 2), weight), Tensor::full({1, kTinyClasses}, 1));
  flat.fill_missing_gradients();
  for (const NamedTensor& gradient : flat.views(flat.gradients())) {
    const float wanted = gradient.name == "fc.weight" ? 2.0F : 0.0F;
    EXPECT_EQ(gradient.tensor.to_vector<float>(),
              std::vector<float>(static_cast<size_t>(gradient.tensor.numel()), wanted))
        << gradient.name;
  }
}

TEST(FlatParameters, FurtherBuffersAreZerosOfTheSameForm) {
  const auto model = make_tiny_model();
  const FlatParameters flat(*model);
  const MemoryStats before = memory_stats();
  const Tensor state = flat.like_master(MemoryCategory::optimizer);
  const auto index = static_cast<size_t>(MemoryCategory::optimizer);
  EXPECT_GE(memory_stats().live[index] - before.live[index], state.bytes());
  EXPECT_EQ(state.shape(), flat.master().shape());
  EXPECT_EQ(state.to_vector<float>(), std::vector<float>(static_cast<size_t>(flat.size())));
  const auto views = flat.views(state);
  const auto parameters = model->parameters();
  ASSERT_EQ(views.size(), parameters.size());
  for (size_t i = 0; i < views.size(); ++i) {
    EXPECT_EQ(views[i].name, parameters[i].name);
    EXPECT_EQ(views[i].tensor.shape(), parameters[i].tensor.shape());
    EXPECT_EQ(views[i].layout, parameters[i].layout);
    EXPECT_TRUE(views[i].tensor.shares_memory_with(state));
  }
}

TEST(FlatParameters, BytesAreCountedAsWhatTheyAre) {
  const auto live = [](MemoryCategory category) { return memory_stats().live[static_cast<size_t>(category)]; };
  const auto model = make_tiny_model();
  const int64_t parameters = live(MemoryCategory::parameters), gradients = live(MemoryCategory::gradients);
  const FlatParameters flat(*model);
  EXPECT_EQ(live(MemoryCategory::gradients) - gradients, flat.size() * 4);
  // The memory that the parameters had before has gone.
  EXPECT_LE(live(MemoryCategory::parameters) - parameters, flat.size() * 4);
}

}  // namespace
}  // namespace engine::testing
