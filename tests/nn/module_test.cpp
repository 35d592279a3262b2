#include "engine/nn/module.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/nn/init.h"
#include "engine/nn/layers.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"

namespace engine::testing {
namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<NamedTensor>& tensors) {
  Names names;
  for (const NamedTensor& named : tensors) names.push_back(named.name);
  return names;
}

TEST(Module, NamesFollowTheTree) {
  const auto model = make_tiny_model();
  EXPECT_EQ(names_of(model->parameters()),
            (Names{"conv.weight", "conv.bias", "bn.weight", "bn.bias", "fc.weight", "fc.bias"}));
  EXPECT_EQ(names_of(model->buffers()), (Names{"bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}));
}

TEST(Module, ParametersSayWhatTheyAre) {
  const auto model = make_tiny_model();
  const auto parameters = model->parameters();
  const std::vector<ParameterKind> kinds = {ParameterKind::weight, ParameterKind::bias,   ParameterKind::norm,
                                            ParameterKind::norm,   ParameterKind::weight, ParameterKind::bias};
  for (size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(parameters[i].kind, kinds[i]) << parameters[i].name;
    EXPECT_TRUE(requires_grad(parameters[i].tensor)) << parameters[i].name;
  }
  EXPECT_EQ(parameters[0].layout, FileLayout::filter);
  EXPECT_EQ(parameters[4].layout, FileLayout::flattened_linear);
  EXPECT_EQ(parameters[4].channels, 4);
  EXPECT_EQ(parameters[5].layout, FileLayout::plain);
  for (const NamedTensor& buffer : model->buffers()) EXPECT_FALSE(requires_grad(buffer.tensor)) << buffer.name;
}

TEST(Module, ModeReachesEveryLayer) {
  const auto model = make_tiny_model();
  EXPECT_TRUE(model->training());
  const Tensor x = Tensor::from_vector({4, kTinySize, kTinySize, kTinyChannels},
                                       uniform<float>(4 * kTinySize * kTinySize * kTinyChannels, 1));
  const auto statistics = [&] { return model->buffers()[0].tensor.to_vector<float>(); };
  const auto counted = [&] { return model->buffers()[2].tensor.item(); };
  const auto at_start = statistics();
  model->set_training(false);
  (*model)(x);
  ExpectSameBits(statistics(), at_start);
  EXPECT_EQ(counted(), 0);
  model->set_training(true);
  (*model)(x);
  EXPECT_NE(statistics(), at_start);
  EXPECT_EQ(counted(), 1);
}

TEST(Module, ObserverSeesEachLayerInOrder) {
  const auto model = make_tiny_model();
  Names seen;
  Module::set_output_observer([&](const Module& layer, const Tensor&) { seen.push_back(model->name_of(layer)); });
  const Tensor x = Tensor::zeros({2, kTinySize, kTinySize, kTinyChannels});
  (*model)(x);
  Module::set_output_observer({});
  EXPECT_EQ(seen, (Names{"conv", "bn", "fc"}));
  (*model)(x);
  EXPECT_EQ(seen.size(), 3u);
  const auto stranger = make_tiny_model();
  EXPECT_EQ(model->name_of(*stranger), "");
}

TEST(Module, RebindingKeepsTheGradientSide) {
  const auto model = make_tiny_model();
  const auto before = model->parameters();
  model->rebind_parameters([](const NamedTensor& named) { return named.tensor.clone(); });
  const auto after = model->parameters();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_FALSE(after[i].tensor.shares_memory_with(before[i].tensor)) << after[i].name;
    EXPECT_EQ(after[i].tensor.autograd(), before[i].tensor.autograd()) << after[i].name;
  }
  ExpectError<Error>([&] { model->rebind_parameters([](const NamedTensor&) { return Tensor::zeros({1}); }); },
                     {"[module] rebind conv.weight", "got f32 [1]", "expected floats [4, 3, 3, 2]"});
}

TEST(Layers, DescribeShapesAndWork) {
  const auto model = make_tiny_model();
  std::vector<LayerDescription> layers;
  EXPECT_EQ(model->describe("", {kTinySize, kTinySize, kTinyChannels}, layers), Shape{kTinyClasses});
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].name, "conv");
  EXPECT_EQ(layers[0].kind, "conv2d");
  EXPECT_EQ(layers[0].output_shape, (Shape{6, 6, 4}));
  EXPECT_EQ(layers[0].parameters, 4 * 9 * 2 + 4);
  EXPECT_EQ(layers[0].macs, 36 * 4 * 9 * 2);
  EXPECT_EQ(layers[1].kind, "batch_norm");
  EXPECT_EQ(layers[1].parameters, 8);
  EXPECT_EQ(layers[2].parameters, 144 * 3 + 3);
  EXPECT_EQ(layers[2].macs, 144 * 3);
}

TEST(Layers, LinearFlattensPictures) {
  Linear linear({.in_features = 8, .out_features = 2});
  linear.weight().fill(1);
  linear.bias().fill(0.5);
  EXPECT_EQ(linear(Tensor::full({3, 2, 2, 2}, 1)).to_vector<float>(), std::vector<float>(6, 8.5F));
}

TEST(Layers, NormsAddWhatComesBeforeTheRelu) {
  BatchNorm2d norm(1);
  norm.set_training(false);
  const Tensor x = Tensor::from_vector<float>({2, 1, 1, 1}, {1, -1}), shortcut = Tensor::full({2, 1, 1, 1}, 2);
  const auto plain = norm(x).to_vector<float>(), cut = norm.forward_relu(x).to_vector<float>(),
             added = norm.forward_relu(x, shortcut).to_vector<float>();
  EXPECT_LT(plain[1], 0);
  EXPECT_EQ(cut[1], 0);
  EXPECT_GT(added[1], 0);
}

TEST(Cases, H_LOAD_01_OneValuePerChannelIsAnErrorInTrainingOnly) {
  const auto model = make_tiny_model();
  BatchNorm2d norm(4);
  const Tensor single = Tensor::full({1, 1, 1, 4}, 1);
  ExpectError<Error>([&] { norm(single); }, {"[batch_norm]", "got [1, 1, 1, 4]", "more than one value per channel"});
  for (const NamedTensor& buffer : norm.buffers()) {
    if (buffer.tensor.dtype() != DType::f32) continue;
    for (const float value : buffer.tensor.to_vector<float>()) EXPECT_TRUE(std::isfinite(value)) << buffer.name;
  }
  norm.set_training(false);
  EXPECT_EQ(norm(single).shape(), single.shape());
}

/// Mean, standard deviation and largest absolute value.
struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments_of(const Tensor& tensor) {
  Moments found;
  const auto values = tensor.to_vector<float>();
  const auto count = static_cast<double>(values.size());
  for (const float value : values) {
    found.mean += value / count;
    found.deviation += double{value} * value / count;
    found.largest = std::max(found.largest, std::abs(double{value}));
  }
  found.deviation = std::sqrt(found.deviation - found.mean * found.mean);
  return found;
}

// A statistic of a fixed draw may lie so many of its own standard deviations off.
constexpr double kDeviations = 5;

TEST(Init, HeNormalOverFanOut) {
  const Tensor filter = Tensor::empty({64, 3, 3, 32});
  init_he_normal_fan_out(filter, 1, "conv");
  const Moments found = moments_of(filter);
  const double wanted = std::sqrt(2.0 / (64 * 9)), root = std::sqrt(static_cast<double>(filter.numel()));
  EXPECT_LE(std::abs(found.mean), kDeviations * wanted / root);
  EXPECT_LE(std::abs(found.deviation - wanted), kDeviations * wanted / (root * std::sqrt(2.0)));
  EXPECT_GT(found.largest, 3 * wanted);
  ExpectError<Error>([] { init_he_normal_fan_out(Tensor::empty({3}), 1, "odd"); }, {"[init] odd", "[3]"});
}

TEST(Init, UniformOverFanIn) {
  const Tensor weight = Tensor::empty({100, 50});
  init_uniform_fan_in(weight, 50, 1, "fc");
  const Moments found = moments_of(weight);
  const double bound = 1 / std::sqrt(50.0), root = std::sqrt(static_cast<double>(weight.numel()));
  EXPECT_LE(found.largest, bound);
  EXPECT_GT(found.largest, bound * (1 - kDeviations / static_cast<double>(weight.numel())));
  EXPECT_LE(std::abs(found.mean), kDeviations * bound / (std::sqrt(3.0) * root));
  ExpectError<Error>([&] { init_uniform_fan_in(weight, 0, 1, "odd"); }, {"[init] odd", "got fan-in 0"});
}

TEST(Init, DependsOnSeedAndNameAlone) {
  const auto drawn = [](uint64_t seed, const char* name) {
    const Tensor tensor = Tensor::empty({4, 3, 3, 2});
    init_he_normal_fan_out(tensor, seed, name);
    return tensor.to_vector<float>();
  };
  ExpectSameBits(drawn(1, "a"), drawn(1, "a"));
  EXPECT_NE(drawn(1, "a"), drawn(2, "a"));
  EXPECT_NE(drawn(1, "a"), drawn(1, "b"));
}

}  // namespace
}  // namespace engine::testing
