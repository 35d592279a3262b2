// Every convolution of every registered model, planned by the real cuDNN for GPUs that are not here.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/profile/conv_network.h"
#include "engine/profile/gpu_description.h"
#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_planning.h"
#include "models/registry.h"

namespace engine {
namespace {

using kernels::ConvDirection;
using kernels::ConvPlanKey;
using kernels::ElementType;
using kernels::FusionPolicy;
using kernels::FusionTarget;
using kernels::PlannedConvolution;

constexpr int64_t kBatches[] = {1, 32, 256};
constexpr int64_t kListedBatch = 256;
constexpr ConvDirection kDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                         ConvDirection::backward_weights};

/// All convolutions of all models; those of one shape and one neighbourhood once.
const std::vector<NetworkConv>& all_convolutions() {
  static const std::vector<NetworkConv> all = [] {
    std::vector<NetworkConv> found;
    std::set<std::string> seen;
    for (const models::ModelInfo& info : models::all_models()) {
      std::vector<LayerDescription> layers;
      info.make({})->describe("", Shape{info.picture_size, info.picture_size, info.channels}, layers);
      for (const NetworkConv& conv : conv_network(layers)) {
        const std::string text =
            fmt::format("{} {} {}", conv.shape.str(), static_cast<int>(conv.input), conv.norm_behind);
        if (seen.insert(text).second) found.push_back(conv);
      }
    }
    return found;
  }();
  return all;
}

/// The plain form, and each that some policy takes, by their names.
std::map<std::string, ConvPlanKey> keys_for(const GpuDescription& gpu, ElementType type) {
  std::map<std::string, ConvPlanKey> keys;
  for (const NetworkConv& conv : all_convolutions()) {
    for (const int64_t batch : kBatches) {
      for (const ConvDirection direction : kDirections) {
        if (direction == ConvDirection::backward_data && conv.input == ConvInput::picture) continue;
        for (const FusionPolicy policy : {FusionPolicy::off, FusionPolicy::automatic, FusionPolicy::on}) {
          const FusionTarget target{.sm_version = gpu.sm_version, .policy = policy};
          const ConvPlanKey key = training_key(conv, direction, batch, type, target);
          keys.emplace(key.str(), key);
        }
      }
    }
  }
  return keys;
}

struct Row {
  ConvPlanKey key;
  PlannedConvolution plan;
  std::string failure;
};

std::vector<Row> plan_all(const GpuDescription& gpu, ElementType type) {
  std::vector<Row> rows;
  for (const auto& [name, key] : keys_for(gpu, type)) rows.push_back({key, {}, {}});
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t i = 0; i < rows.size(); ++i) {
    try {
      rows[i].plan = plan_convolution({gpu.sm_version, gpu.json}, rows[i].key);
    } catch (const std::exception& error) {
      rows[i].failure = error.what();
    }
  }
  return rows;
}

/// Skips where there is no cuDNN to ask.
class CudnnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      if (kernels::cudnn_version().built.empty()) GTEST_SKIP() << "cuDNN is not part of this build";
    } catch (const kernels::LibraryError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

class ConvolutionPlans : public CudnnTest,
                         public ::testing::WithParamInterface<std::tuple<std::string, ElementType>> {};

TEST_P(ConvolutionPlans, ExistForEveryFormThatIsChosen) {
  const auto& [name, type] = GetParam();
  const GpuDescription gpu = find_gpu(name);
  const std::vector<Row> rows = plan_all(gpu, type);
  int64_t largest = 0;
  fmt::print("{}, {}, batch {}, cuDNN {}:\n", gpu.name, element_name(type), kListedBatch,
             kernels::cudnn_version().loaded);
  for (const Row& row : rows) {
    EXPECT_TRUE(row.failure.empty()) << gpu.name << ": " << row.key.str() << ": " << row.failure;
    EXPECT_EQ(row.failure.empty(), !row.plan.engine.empty()) << row.key.str();
    largest = std::max(largest, row.plan.workspace_bytes);
    if (row.key.shape.n != kListedBatch) continue;
    fmt::print("  {:<105} {:<45} {:>9.1f} MB\n", row.key.str(), row.plan.engine,
               static_cast<double>(row.plan.workspace_bytes) / 1e6);
  }
  fmt::print("  {} plans with batches of 1, 32 and 256; largest workspace {:.1f} MB\n", rows.size(),
             static_cast<double>(largest) / 1e6);
}

INSTANTIATE_TEST_SUITE_P(Gpus, ConvolutionPlans,
                         ::testing::Combine(::testing::Values("a100", "h200", "b200"),
                                            ::testing::Values(ElementType::f16, ElementType::bf16, ElementType::f32)),
                         [](const auto& suite) {
                           return std::get<0>(suite.param) + "_" + element_name(std::get<1>(suite.param));
                         });

// The table in conv2d_fusion.h, where it says no: a form that a newer cuDNN has would be left unused in silence.
using MissingPlans = CudnnTest;
TEST_F(MissingPlans, AreMissingWhereTheTableSaysSo) {
  const kernels::Conv2dShape shape{
      .n = 32, .h = 28, .w = 28, .c = 128, .k = 128, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1};
  const std::vector<std::pair<std::string, ConvPlanKey>> absent = {
      {"h200", {shape, ConvDirection::forward, ElementType::bf16, {.epilogue = kernels::ConvEpilogue::statistics}}},
      {"b200", {shape, ConvDirection::forward, ElementType::f16, {.prologue = kernels::ConvPrologue::scale_bias_relu}}},
      {"a100",
       {shape,
        ConvDirection::forward,
        ElementType::f16,
        {kernels::ConvPrologue::scale_bias_add_relu, kernels::ConvEpilogue::statistics}}},
  };
  for (const auto& [name, key] : absent) {
    const GpuDescription gpu = find_gpu(name);
    EXPECT_FALSE(conv_fusion_exists({.sm_version = gpu.sm_version}, key)) << key.str();
    EXPECT_THROW(plan_convolution({gpu.sm_version, gpu.json}, key), kernels::LibraryError) << key.str();
  }
}

}  // namespace
}  // namespace engine
