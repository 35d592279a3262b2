#include "engine/optim/weight_average.h"

#include <gtest/gtest.h>

#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

float first(const Tensor& tensor) { return tensor.data<float>()[0]; }

/// The average's tensor of a name.
Tensor average_of(const WeightAverage& average, const std::string& name) {
  for (const NamedTensor& named : average.tensors()) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(Cases, H_REQ_01_MovingAverageOfWeightsAndStatistics) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  flat.master().fill(0);
  const auto buffers = model->buffers();
  for (const NamedTensor& buffer : buffers) buffer.tensor.fill(0);
  WeightAverage average(*model, flat, 0.9);
  const double wanted[] = {0.1, 0.29, 0.561};
  for (int step = 1; step <= 3; ++step) {
    flat.master().fill(step);
    for (const NamedTensor& buffer : buffers) buffer.tensor.fill(step);
    average.update();
    const double tol = tolerance<float>(3, OpClass::elementwise);
    const std::vector<double> expected = {wanted[step - 1]};
    for (const char* name : {"conv.weight", "fc.bias", "bn.running_mean", "bn.running_var"}) {
      ExpectClose(std::vector<float>{first(average_of(average, name))}, expected, tol, name);
    }
    EXPECT_EQ(average_of(average, "bn.num_batches_tracked").item(), step);  // a counter is copied
  }
}

TEST(WeightAverage, BeginsAsACopy) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  const WeightAverage average(*model, flat, 0.99);
  for (const NamedTensor& named : model->parameters()) {
    const Tensor copy = average_of(average, named.name);
    EXPECT_FALSE(copy.shares_memory_with(named.tensor));
    ExpectSameBits(copy.to_vector<float>(), named.tensor.to_vector<float>(), named.name.c_str());
  }
}

TEST(WeightAverage, HasTheModelsNamesAndLayouts) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  const WeightAverage average(*model, flat, 0.99);
  std::vector<NamedTensor> expected = model->parameters();
  const auto buffers = model->buffers();
  expected.insert(expected.end(), buffers.begin(), buffers.end());
  const auto got = average.tensors();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, expected[i].name);
    EXPECT_EQ(got[i].layout, expected[i].layout);
    EXPECT_EQ(got[i].channels, expected[i].channels);
    EXPECT_EQ(got[i].tensor.shape(), expected[i].tensor.shape());
  }
}

TEST(WeightAverage, SwapsThereAndBack) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  WeightAverage average(*model, flat, 0.5);
  flat.master().fill(4);
  const auto buffers = model->buffers();
  for (const NamedTensor& buffer : buffers) buffer.tensor.fill(4);
  average.update();
  const auto in_average = average_of(average, "fc.weight").to_vector<float>();
  const auto statistics = average_of(average, "bn.running_var").to_vector<float>();
  average.swap_with_model();
  ExpectSameBits(flat.views(flat.master())[4].tensor.to_vector<float>(), in_average);
  ExpectSameBits(model->parameters()[4].tensor.to_vector<float>(), in_average);
  ExpectSameBits(buffers[1].tensor.to_vector<float>(), statistics);
  EXPECT_EQ(first(average_of(average, "fc.weight")), 4.0F);
  average.swap_with_model();
  EXPECT_EQ(first(flat.master()), 4.0F);
  EXPECT_EQ(first(buffers[1].tensor), 4.0F);
  ExpectSameBits(average_of(average, "fc.weight").to_vector<float>(), in_average);
}

}  // namespace
}  // namespace engine::testing
