#include "engine/profile/gpu_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/profile/activation_memory.h"
#include "engine/profile/conv_network.h"
#include "kernels/common/library_handles.h"
#include "models/registry.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace engine {
namespace {

using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvPrologue;
using kernels::ElementType;
using kernels::FusionPolicy;
using kernels::FusionTarget;
using testing::ExpectError;
using testing::TempDir;

const ModelOutline& outline(const std::string& name) {
  static std::map<std::string, ModelOutline> known;
  const auto [found, fresh] = known.try_emplace(name);
  if (fresh) {
    const models::ModelInfo& info = models::find_model(name);
    found->second = ModelOutline::of(*info.make({}), Shape{info.picture_size, info.picture_size, info.channels});
  }
  return found->second;
}

std::string file_with(const TempDir& folder, const std::string& text) {
  const std::string path = (folder.path() / "card.json").string();
  std::ofstream(path) << text;
  return path;
}

TEST(GpuDescriptions, AreBuiltInOrReadFromAFile) {
  for (const std::string& name : gpu_names()) {
    const GpuDescription gpu = find_gpu(name);
    EXPECT_GE(gpu.sm_version, 80) << name;
    EXPECT_GT(gpu.memory_bytes, int64_t{80} << 30 >> 1) << name;
    const TempDir folder;
    const GpuDescription again = find_gpu(file_with(folder, gpu.json));
    EXPECT_EQ(again.name, gpu.name);
    EXPECT_EQ(again.sm_version, gpu.sm_version);
    EXPECT_EQ(again.memory_bytes, gpu.memory_bytes);
  }
  EXPECT_EQ(find_gpu("h200").sm_version, 90);
}

TEST(GpuDescriptions, RefuseWhatTheyCannotUse) {
  const TempDir folder;
  ExpectError<ConfigError>([] { find_gpu("gtx9000"); }, {"gtx9000", "a100, h100, h200, b200"});
  ExpectError<ConfigError>([&] { find_gpu(folder.path().string()); }, {folder.path().filename().string()});
  for (const char* text : {"", "{", "{} x"}) {
    ExpectError<ConfigError>([&] { find_gpu(file_with(folder, text)); }, {"card.json", "expected JSON"});
  }
  ExpectError<ConfigError>([&] { find_gpu(file_with(folder, "[1]")); }, {"card.json", "expected a JSON object"});
  const nlohmann::json whole = nlohmann::json::parse(find_gpu("h200").json);
  for (const auto& [key, value] : whole.items()) {
    nlohmann::json json = whole;
    json.erase(key);
    ExpectError<ConfigError>([&] { find_gpu(file_with(folder, json.dump())); }, {"card.json", '"' + key + '"'});
    json[key] = nullptr;
    ExpectError<ConfigError>([&] { find_gpu(file_with(folder, json.dump())); }, {"card.json", key, "null"});
  }
}

const NetworkConv& find(const std::vector<NetworkConv>& convs, const std::string& name) {
  return *std::find_if(convs.begin(), convs.end(), [&](const NetworkConv& conv) { return conv.name == name; });
}

TEST(ConvNetworks, KnowWhatStandsAroundAConvolution) {
  const auto convs = conv_network(outline("resnet50").layers);
  ASSERT_EQ(convs.size(), 53u);
  EXPECT_EQ(find(convs, "conv1").input, ConvInput::picture);
  EXPECT_EQ(find(convs, "layer1.0.conv1").input, ConvInput::stored);
  EXPECT_EQ(find(convs, "layer1.0.conv2").input, ConvInput::activation);
  EXPECT_EQ(find(convs, "layer1.0.conv3").input, ConvInput::activation);
  EXPECT_EQ(find(convs, "layer1.0.downsample.0").input, ConvInput::stored);
  EXPECT_EQ(find(convs, "layer1.1.conv1").input, ConvInput::dual_block_end);
  EXPECT_EQ(find(convs, "layer1.2.conv1").input, ConvInput::block_end);
  EXPECT_EQ(find(convs, "layer2.0.conv1").input, ConvInput::block_end);
  for (const NetworkConv& conv : convs) EXPECT_TRUE(conv.norm_behind) << conv.name;
  const auto simple = conv_network(outline("simplecnn").layers);
  ASSERT_EQ(simple.size(), 1u);
  EXPECT_EQ(simple[0].input, ConvInput::picture);
  EXPECT_FALSE(simple[0].norm_behind);
}

TEST(ConvNetworks, RecomputeWhatWasNotStored) {
  for (const int sm_version : {80, 90, 100, 120}) {
    for (const FusionPolicy policy : {FusionPolicy::off, FusionPolicy::automatic, FusionPolicy::on}) {
      const FusionTarget target{.sm_version = sm_version, .policy = policy};
      for (const NetworkConv& conv : conv_network(outline("resnet50").layers)) {
        const auto fusion = [&](ConvDirection direction) {
          return training_key(conv, direction, 32, ElementType::f16, target).fusion;
        };
        EXPECT_EQ(fusion(ConvDirection::forward).prologue == ConvPrologue::scale_bias_relu,
                  fusion(ConvDirection::backward_weights).prologue == ConvPrologue::scale_bias_relu)
            << conv.name << " on sm_" << sm_version;
      }
    }
  }
}

double megabytes_a_picture(const FusionTarget& target, ElementType type) {
  const ModelOutline& model = outline("resnet50");
  return static_cast<double>(activation_bytes(model.layers, model.input, 64, type, target)) / 64e6;
}

// By hand: the convolutions' results are 22.23 MB a picture in FP16, the blocks' ends 11.04, the inner activations 8.4.
TEST(ActivationMemory, IsWhatAResNet50Keeps) {
  EXPECT_NEAR(megabytes_a_picture({.sm_version = 90}, ElementType::f16), 35, 1);
  EXPECT_NEAR(megabytes_a_picture({.sm_version = 90, .policy = FusionPolicy::off}, ElementType::f16), 42, 1);
  EXPECT_NEAR(megabytes_a_picture({.sm_version = 90}, ElementType::f32), 84, 2);
}

TEST(GpuPlans, ListEachConvolutionOncePerDirection) {
  const GpuPlan plan = plan_for_gpu(outline("resnet18"), {.gpu = find_gpu("h200"), .batch = 32});
  std::vector<std::string> entries;
  for (const PlannedLayer& layer : plan.plans) {
    entries.push_back(layer.layer + std::to_string(static_cast<int>(layer.direction)));
    EXPECT_FALSE(layer.engine.empty());
    EXPECT_GE(layer.workspace_bytes, 0);
  }
  for (const UnplannedLayer& layer : plan.unplanned) {
    entries.push_back(layer.layer + std::to_string(static_cast<int>(layer.direction)));
    EXPECT_FALSE(layer.reason.empty());
  }
  EXPECT_EQ(entries.size(), 20u * 3 - 1);
  std::sort(entries.begin(), entries.end());
  EXPECT_EQ(std::adjacent_find(entries.begin(), entries.end()), entries.end());
  EXPECT_EQ(plan.unplanned.empty(), !kernels::cudnn_version().built.empty());
}

TEST(GpuPlans, FindTheLargestBatch) {
  const ModelOutline& model = outline("resnet18");
  GpuPlanRequest request{.gpu = find_gpu("a100"), .batch = 1, .type = ElementType::f32, .optimizer_slots = 2};
  const GpuPlan small = plan_for_gpu(model, request);
  EXPECT_TRUE(small.fits);
  request.batch = small.largest_batch;
  const GpuPlan largest = plan_for_gpu(model, request);
  EXPECT_TRUE(largest.fits);
  EXPECT_LE(largest.memory.total(), usable_bytes(request.gpu));
  request.batch = small.largest_batch + 1;
  EXPECT_FALSE(plan_for_gpu(model, request).fits);
  request.gpu.memory_bytes = int64_t{1} << 30;
  EXPECT_EQ(plan_for_gpu(model, request).largest_batch, 0);
}

TEST(GpuPlans, CountParametersAndOptimizer) {
  const ModelOutline& model = outline("resnet50");
  EXPECT_GE(model.parameters, 25557032);
  EXPECT_LE(model.parameters, 25557032 + 161 * 32);
  GpuPlanRequest request{.gpu = find_gpu("h200"), .batch = 8};
  const PlannedMemory full = plan_for_gpu(model, request).memory;
  EXPECT_EQ(full.parameters, 4 * (model.parameters + model.statistics));
  EXPECT_EQ(full.gradients, 4 * model.parameters);
  EXPECT_EQ(full.optimizer, 4 * model.parameters);
  request.type = ElementType::bf16;
  request.optimizer_slots = 2;
  const PlannedMemory half = plan_for_gpu(model, request).memory;
  EXPECT_EQ(half.parameters, full.parameters + 2 * model.parameters);
  EXPECT_EQ(half.optimizer, 8 * model.parameters);
  EXPECT_LT(half.activations, full.activations);
}

}  // namespace
}  // namespace engine
