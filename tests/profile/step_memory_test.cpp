#include "engine/profile/step_memory.h"

#include <gtest/gtest.h>

#include "engine/profile/recompute_plan.h"
#include "engine/train/train_step.h"
#include "kernels/common/onednn.h"
#include "models/registry.h"
#include "tests/support/accelerator.h"
#include "tests/support/fake_source.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

struct Case {
  const char* model;
  int64_t size;
  int64_t channels;
  std::vector<int64_t> batches;
};

const std::vector<Case> kCases = {
    {"simplecnn", 28, 1, {4, 24, 100}}, {"resnet18", 64, 3, {2, 5, 12}}, {"resnet50", 48, 3, {2, 6, 16}}};

struct Network {
  std::unique_ptr<Module> model;
  FlatParameters flat;
  std::unique_ptr<Optimizer> optimizer;
  Device device;

  Network(const std::string& name, Device where)
      : model(models::find_model(name).make({.num_classes = 10})),
        flat(*model, where),
        optimizer(make_optimizer({}, flat)),
        device(where) {}

  void set_checkpointed(bool checkpointed) {
    for (const auto& [name, block] : model->blocks()) block->set_checkpointed(checkpointed);
  }

  int64_t peak_of_step(const Case& c, int64_t batch_size) { return peaks_of_steps(c, {batch_size}).back(); }

  /// What steps of these batch sizes really take above what is live before them, pictures and labels apart.
  std::vector<int64_t> peaks_of_steps(const Case& c, const std::vector<int64_t>& batch_sizes) {
    TrainStep step({model.get(), &flat, optimizer.get(), nullptr}, {.recorded = false});
    const auto one = [&](int64_t batch_size) {
      const FakeSource source({.samples = batch_size, .size = c.size, .channels = c.channels, .classes = 10});
      std::vector<int64_t> samples;
      for (int64_t i = 0; i < batch_size; ++i) samples.push_back(i);
      Batch batch = source.batch_of(samples);
      batch.global_samples = batch_size;
      batch.last_of_step = true;
      const MemoryStats before = memory_stats(device);
      reset_memory_peaks(device);
      step.add(batch);
      step.finish(0.01);
      // Uploads take memory that stays.
      constexpr auto kData = static_cast<size_t>(MemoryCategory::data);
      const MemoryStats after = memory_stats(device);
      return after.peak_total - before.live_total - (after.live[kData] - before.live[kData]);
    };
    if (!device.is_cpu()) one(batch_sizes.back());  // the optimizer's tables
    std::vector<int64_t> peaks;
    for (const int64_t batch_size : batch_sizes) peaks.push_back(one(batch_size));
    return peaks;
  }
};

/// The batches of `c` in rising order.
void expect_predicted(Device device, const Case& c) {
  for (const bool checkpointed : {false, true}) {
    Network network(c.model, device);
    network.set_checkpointed(checkpointed);
    const StepMemory memory = StepMemory::measure(*network.model, network.flat, {c.size, c.size, c.channels});
    const std::vector<int64_t> real = network.peaks_of_steps(c, c.batches);
    for (size_t i = 0; i < real.size(); ++i) {
      SCOPED_TRACE(std::string(c.model) + (checkpointed ? " checkpointed" : "") + ", batch " +
                   std::to_string(c.batches[i]));
      EXPECT_NEAR(static_cast<double>(memory.peak(c.batches[i])) / static_cast<double>(real[i]), 1, kMemoryPrediction);
    }
  }
}

TEST(StepMemory, IsWithinFivePercentOnTheCpu) {
  for (const Case& c : kCases) expect_predicted(Device::cpu(), c);
}

class StepMemoryOnDevice : public AcceleratorTest {};

TEST_F(StepMemoryOnDevice, IsWithinFivePercent) {
  expect_predicted(Device::accelerator(), {"simplecnn", 28, 1, {3, 8, 20}});
  expect_predicted(Device::accelerator(), {"resnet18", 32, 3, {2, 3, 4}});
  expect_predicted(Device::accelerator(), {"resnet34", 32, 3, {2, 3, 4}});
}

TEST(StepMemory, ScratchIsThatOfAStep) {
  const Case c{"resnet18", 64, 3, {}};
  Network network(c.model, Device::cpu());
  for (const int64_t batch : {4, 16}) {
    const int64_t found = scratch_of_step(*network.model, network.flat, {c.size, c.size, c.channels}, batch);
    kernels::onednn_release_scratch();
    network.peak_of_step(c, batch);
    EXPECT_EQ(found, kernels::onednn_scratch_bytes());
    EXPECT_GT(found, 0);
  }
}

TEST(StepMemory, LeavesTheModelAsItWas) {
  Network network("resnet18", Device::cpu());
  network.model->set_training(false);
  const auto values = [&] {
    std::vector<std::vector<float>> all{network.flat.master().to_vector<float>()};
    all.push_back(network.flat.statistics().to_vector<float>());
    for (const NamedTensor& counter : network.flat.counters())
      all.push_back({static_cast<float>(counter.tensor.item())});
    return all;
  };
  const auto before = values();
  StepMemory::measure(*network.model, network.flat, {32, 32, 3});
  EXPECT_EQ(values(), before);
  EXPECT_FALSE(network.model->training());
}

TEST(RecomputePlan, TheCheapestChoiceThatSavesEnough) {
  const std::vector<RecomputeCandidate> candidates = {{100, 10}, {60, 4}, {50, 4}, {10, 1}};
  using Choice = std::vector<size_t>;
  EXPECT_EQ(cheapest_to_recompute(candidates, 0), Choice{});
  EXPECT_EQ(cheapest_to_recompute(candidates, 10), Choice{3});
  EXPECT_EQ(cheapest_to_recompute(candidates, 55), Choice{1});
  EXPECT_EQ(cheapest_to_recompute(candidates, 100), (Choice{1, 2}));
  EXPECT_EQ(cheapest_to_recompute(candidates, 112), (Choice{1, 2, 3}));
  EXPECT_EQ(cheapest_to_recompute(candidates, 155), (Choice{0, 1}));
  EXPECT_EQ(cheapest_to_recompute(candidates, 1000), (Choice{0, 1, 2, 3}));
}

TEST(RecomputePlan, KeepsTheBudget) {
  const Case c{"resnet18", 64, 3, {}};
  constexpr int64_t kBatch = 8, kOther = 1 << 20;
  Network network(c.model, Device::cpu());
  RecomputeRequest request{{c.size, c.size, c.channels}, kBatch, int64_t{1} << 40, kOther};
  const RecomputePlan roomy = plan_recomputation(*network.model, network.flat, request);
  EXPECT_TRUE(roomy.fits && roomy.blocks.empty());
  request.budget_bytes = 0;
  const RecomputePlan least = plan_recomputation(*network.model, network.flat, request);
  EXPECT_FALSE(least.fits);
  EXPECT_EQ(least.blocks.size(), 8u);
  EXPECT_EQ(least.peak_bytes, least.least_peak_bytes);
  EXPECT_LT(least.least_peak_bytes, roomy.peak_bytes);
  size_t blocks_before = 9;
  for (const double share : {0.1, 0.5, 0.9}) {
    SCOPED_TRACE(share);
    request.budget_bytes = least.least_peak_bytes +
                           static_cast<int64_t>(share * static_cast<double>(roomy.peak_bytes - least.least_peak_bytes));
    const RecomputePlan plan = plan_recomputation(*network.model, network.flat, request);
    EXPECT_TRUE(plan.fits);
    EXPECT_LE(plan.blocks.size(), blocks_before);
    EXPECT_FALSE(plan.blocks.empty());
    blocks_before = plan.blocks.size();
    EXPECT_LE(network.peak_of_step(c, kBatch) + kOther, request.budget_bytes);
  }
  EXPECT_LT(blocks_before, 8u);
}

}  // namespace
}  // namespace engine::testing
