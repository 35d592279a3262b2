// Every registered model.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/nn/flat_parameters.h"
#include "engine/ops/cpu_path.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/optim/optimizer.h"
#include "models/registry.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using models::ModelInfo;
using Names = std::vector<std::string>;

/// What torchvision (and PyTorch's documentation for SimpleCNN) says of each at 1000 classes: the number of parameters,
/// the blocks of each stage, and the convolutions of a block.
struct Published {
  int64_t parameters;
  std::vector<int> blocks;
  int convs;
};

const std::map<std::string, Published>& published() {
  static const std::map<std::string, Published> table = {
      {"simplecnn", {(32 * 9 + 32) + (32 * 26 * 26 + 1) * 1000, {}, 0}},
      {"resnet18", {11'689'512, {2, 2, 2, 2}, 2}},
      {"resnet34", {21'797'672, {3, 4, 6, 3}, 2}},
      {"resnet50", {25'557'032, {3, 4, 6, 3}, 3}},
      {"resnet101", {44'549'160, {3, 4, 23, 3}, 3}},
      {"resnet152", {60'192'808, {3, 8, 36, 3}, 3}},
  };
  return table;
}

/// Layers in the order of torchvision's state dict, a batch norm as "bn:NAME".
Names resnet_layers(const Published& model) {
  Names layers = {"conv1", "bn:bn1"};
  for (size_t stage = 0; stage < model.blocks.size(); ++stage) {
    for (int block = 0; block < model.blocks[stage]; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      for (int conv = 1; conv <= model.convs; ++conv) {
        layers.push_back(name + "conv" + std::to_string(conv));
        layers.push_back("bn:" + name + "bn" + std::to_string(conv));
      }
      if (block == 0 && (stage > 0 || model.convs == 3)) {
        layers.push_back(name + "downsample.0");
        layers.push_back("bn:" + name + "downsample.1");
      }
    }
  }
  return layers;
}

void expect_resnet_names(const Module& model, const Published& expected) {
  Names parameters, buffers;
  for (const std::string& layer : resnet_layers(expected)) {
    if (!layer.starts_with("bn:")) {
      parameters.push_back(layer + ".weight");
      continue;
    }
    const std::string norm = layer.substr(3);
    for (const char* part : {".weight", ".bias"}) parameters.push_back(norm + part);
    for (const char* part : {".running_mean", ".running_var", ".num_batches_tracked"}) buffers.push_back(norm + part);
  }
  for (const char* last : {"fc.weight", "fc.bias"}) parameters.push_back(last);
  Names got_parameters, got_buffers;
  for (const NamedTensor& named : model.parameters()) got_parameters.push_back(named.name);
  for (const NamedTensor& named : model.buffers()) got_buffers.push_back(named.name);
  EXPECT_EQ(got_parameters, parameters);
  EXPECT_EQ(got_buffers, buffers);
}

int64_t count_of(const std::vector<NamedTensor>& tensors) {
  int64_t count = 0;
  for (const NamedTensor& named : tensors) count += named.tensor.numel();
  return count;
}

void expect_description(const Module& model, const ModelInfo& info) {
  std::vector<LayerDescription> layers;
  const Shape output = model.describe("", {info.picture_size, info.picture_size, info.channels}, layers);
  EXPECT_EQ(output, Shape{1000});
  int64_t parameters = 0;
  for (const LayerDescription& layer : layers) parameters += layer.parameters;
  EXPECT_EQ(parameters, count_of(model.parameters()));
  EXPECT_EQ(layers.back().name, info.head);
}

/// A batch of pictures small enough for a test, and labels.
struct FixedBatch {
  Tensor images, labels;
  explicit FixedBatch(const ModelInfo& info) {
    const int64_t size = info.fixed_size ? info.picture_size : 32;
    const Shape shape{4, size, size, info.channels};
    images = Tensor::from_vector(shape, uniform<float>(shape.numel(), 11));
    labels = Tensor::from_vector<int64_t>({4}, {0, 999, 3, 500});
  }
};

/// Some steps of plain SGD; the loss at each.
std::vector<double> train(Module& model, const FixedBatch& batch, int steps) {
  FlatParameters flat(model);
  OptimizerConfig config;
  config.momentum = 0;
  const auto optimizer = make_optimizer(config, flat);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    flat.clear_gradients();
    const Tensor loss = softmax_cross_entropy(model(batch.images), batch.labels);
    losses.push_back(loss.item());
    backward(loss);
    for (const FlatRange& range : flat.ranges()) {
      EXPECT_TRUE(grad_of(range.parameter.tensor).defined()) << range.parameter.name << " has no gradient";
    }
    optimizer->step(0.01, 1);
  }
  return losses;
}

void expect_evaluation_is_repeatable(Module& model, const FixedBatch& batch) {
  const NoGradGuard no_grad;
  model.set_training(false);
  const auto all = model(batch.images).to_vector<float>();
  // In evaluation a picture's result does not depend on its neighbours.
  const auto alone = model(batch.images.narrow(0, 2, 1)).to_vector<float>();
  ExpectClose(alone, std::vector<float>(all.begin() + 2000, all.begin() + 3000),
              tolerance<float>(1 << 16, OpClass::winograd), "alone");
  for (const float value : all) ASSERT_TRUE(std::isfinite(value));
  ExpectSameBits(model(batch.images).to_vector<float>(), all);
}

class Models : public ::testing::TestWithParam<ModelInfo> {};

TEST_P(Models, AreAsPublishedAndLearn) {
  const ModelInfo& info = GetParam();
  ASSERT_TRUE(published().contains(info.name)) << "a new model needs its row in this test";
  const Published& expected = published().at(info.name);
  // Blocks that begin as the identity let the deepest nets learn from four small pictures.
  const auto model = info.make({.num_classes = 1000, .seed = 1, .zero_init_residual = true});
  EXPECT_EQ(count_of(model->parameters()), expected.parameters);
  if (expected.convs > 0) expect_resnet_names(*model, expected);
  expect_description(*model, info);
  const FixedBatch batch(info);
  const std::vector<double> losses = train(*model, batch, 3);
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_LT(losses.back(), losses.front());
  expect_evaluation_is_repeatable(*model, batch);
}

INSTANTIATE_TEST_SUITE_P(Registry, Models, ::testing::ValuesIn(models::all_models()),
                         [](const auto& item) { return item.param.name; });

TEST(ModelRegistry, NamesAreFoundOrListed) {
  for (const ModelInfo& info : models::all_models()) EXPECT_EQ(&models::find_model(info.name), &info);
  ExpectError<ConfigError>([] { models::find_model("resnet\n51"); },
                           {"--model", "resnet\\n51", "simplecnn", "resnet50", "resnet152"});
}

TEST(ModelRegistry, SimpleCnnHasItsNames) {
  const auto model = models::find_model("simplecnn").make({.num_classes = 10});
  Names names;
  for (const NamedTensor& named : model->parameters()) names.push_back(named.name);
  EXPECT_EQ(names, (Names{"conv1.weight", "conv1.bias", "fc1.weight", "fc1.bias"}));
  EXPECT_EQ(model->parameters()[2].layout, FileLayout::flattened_linear);
  EXPECT_EQ(model->parameters()[2].channels, 32);
  EXPECT_TRUE(model->buffers().empty());
  ExpectError<Error>([&] { (*model)(Tensor::zeros({1, 32, 32, 1})); }, {"[simple_cnn]", "[1, 32, 32, 1]", "28"});
}

TEST(ModelRegistry, ResNet50HasItsTensorsAndWork) {
  const ModelInfo& info = models::find_model("resnet50");
  const auto model = info.make({.num_classes = 1000});
  EXPECT_EQ(model->parameters().size(), 161u);
  int64_t statistics = 0;
  for (const NamedTensor& buffer : model->buffers()) statistics += buffer.tensor.dtype() == DType::f32 ? 1 : 0;
  EXPECT_EQ(statistics, 106);
  std::vector<LayerDescription> layers;
  model->describe("", {224, 224, 3}, layers);
  int64_t macs = 0;
  std::map<std::string, Shape> shapes;
  for (const LayerDescription& layer : layers) {
    macs += layer.macs;
    shapes[layer.name] = layer.output_shape;
  }
  // 4.09 billion, as torchvision's page of the weights has it.
  EXPECT_EQ(macs / 1'000'000, 4089);
  EXPECT_EQ(shapes.at("conv1"), (Shape{112, 112, 64}));
  EXPECT_EQ(shapes.at("maxpool"), (Shape{56, 56, 64}));
  // v1.5: the 3x3 convolution has the stride.
  EXPECT_EQ(shapes.at("layer2.0.conv1"), (Shape{56, 56, 128}));
  EXPECT_EQ(shapes.at("layer2.0.conv2"), (Shape{28, 28, 128}));
  EXPECT_EQ(shapes.at("layer4.2.bn3"), (Shape{7, 7, 2048}));
}

/// Parameters by name.
std::map<std::string, std::vector<float>> values_of(const Module& model) {
  std::map<std::string, std::vector<float>> values;
  for (const NamedTensor& named : model.parameters()) values[named.name] = named.tensor.to_vector<float>();
  return values;
}

TEST(ModelInit, SameSeedSameWeights) {
  for (const char* name : {"simplecnn", "resnet18"}) {
    const auto& make = models::find_model(name).make;
    const auto one = values_of(*make({.num_classes = 7, .seed = 3})),
               two = values_of(*make({.num_classes = 7, .seed = 3})),
               other = values_of(*make({.num_classes = 7, .seed = 4}));
    for (const auto& [parameter, values] : one) {
      ExpectSameBits(values, two.at(parameter), parameter.c_str());
      const bool drawn =
          parameter.find("bn") == std::string::npos && parameter.find("downsample.1") == std::string::npos;
      EXPECT_EQ(values != other.at(parameter), drawn) << parameter;
    }
  }
}

TEST(ModelInit, FiltersHaveHesDeviationAndNormsAreOneAndZero) {
  const auto model = models::find_model("resnet18").make({.num_classes = 10});
  for (const NamedTensor& named : model->parameters()) {
    const auto values = named.tensor.to_vector<float>();
    if (named.kind == ParameterKind::norm) {
      EXPECT_EQ(values, std::vector<float>(values.size(), named.name.ends_with("weight") ? 1.0F : 0.0F)) << named.name;
    } else if (named.layout == FileLayout::filter) {
      double squares = 0;
      for (const float value : values) squares += double{value} * value;
      const auto count = static_cast<double>(values.size());
      const auto fan_out = static_cast<double>(named.tensor.dim(0) * named.tensor.dim(1) * named.tensor.dim(2));
      // The mean of n squares of standard normals deviates by sqrt(2 / n).
      constexpr double kDeviations = 5;
      EXPECT_LE(std::abs(squares / count * fan_out / 2 - 1), kDeviations * std::sqrt(2 / count)) << named.name;
    }
  }
}

TEST(ModelInit, ZeroInitResidualMakesBlocksTheIdentity) {
  for (const char* name : {"resnet18", "resnet50"}) {
    const std::string last = std::string(name) == "resnet18" ? "bn2.weight" : "bn3.weight";
    const auto model = models::find_model(name).make({.num_classes = 10, .zero_init_residual = true});
    for (const NamedTensor& named : model->parameters()) {
      if (named.kind != ParameterKind::norm || !named.name.ends_with("weight")) continue;
      const float wanted = named.name.starts_with("layer") && named.name.ends_with(last) ? 0.0F : 1.0F;
      EXPECT_EQ(named.tensor.data<float>()[0], wanted) << named.name;
      EXPECT_EQ(named.tensor.data<float>()[named.tensor.numel() - 1], wanted) << named.name;
    }
  }
}

TEST(ModelPaths, FastEqualsReferenceInEvaluation) {
  for (const char* name : {"simplecnn", "resnet18"}) {
    const ModelInfo& info = models::find_model(name);
    const auto model = info.make({.num_classes = 1000});
    model->set_training(false);
    const NoGradGuard no_grad;
    const Tensor images = FixedBatch(info).images.narrow(0, 0, 2);
    const auto fast = (*model)(images).to_vector<float>();
    set_cpu_path(CpuPath::reference);
    const auto reference = (*model)(images).to_vector<float>();
    set_cpu_path(CpuPath::fast);
    // The sums of all layers, one after another.
    ExpectClose(fast, reference, tolerance<float>(18 * 512 * 9, OpClass::winograd), name);
  }
}

}  // namespace
}  // namespace engine::testing
