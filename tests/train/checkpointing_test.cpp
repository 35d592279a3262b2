// Activation checkpointing of whole networks and of batch norm inside it.

#include <gtest/gtest.h>

#include "engine/autograd/backward.h"
#include "engine/autograd/checkpoint.h"
#include "engine/nn/layers.h"
#include "engine/train/train_step.h"
#include "models/registry.h"
#include "tests/support/accelerator.h"
#include "tests/support/fake_source.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

struct Network {
  std::unique_ptr<Module> model;
  FlatParameters flat;
  std::unique_ptr<Optimizer> optimizer;
  TrainStep step;

  Network(const std::string& name, bool checkpointed, Device device, const TrainStepOptions& options = {})
      : model(models::find_model(name).make({.num_classes = 10})),
        flat(*model, device, DType::f32),
        optimizer(make_optimizer({}, flat)),
        step({model.get(), &flat, optimizer.get(), nullptr}, options) {
    for (const auto& [block_name, block] : model->blocks()) block->set_checkpointed(checkpointed);
  }

  void train(int64_t steps, int64_t batch_size, int64_t size) {
    FakeSource source({.samples = 64, .size = size, .channels = 3, .classes = 10});
    for (int64_t i = 0; i < steps; ++i) {
      std::vector<int64_t> samples;
      for (int64_t j = 0; j < batch_size; ++j) samples.push_back((i * batch_size + j) % 64);
      Batch batch = source.batch_of(samples);
      batch.global_samples = batch_size;
      batch.last_of_step = true;
      step.add(batch);
      step.finish(0.01);
    }
  }

  /// Parameters, momentum, running statistics and counters.
  std::vector<std::vector<float>> state() const {
    std::vector<std::vector<float>> all{flat.master().to_vector<float>()};
    for (const OptimizerSlot& slot : optimizer->slots()) all.push_back(slot.buffer.to_vector<float>());
    for (const NamedTensor& buffer : model->buffers()) {
      all.push_back(buffer.tensor.dtype() == DType::f32 ? buffer.tensor.to_vector<float>()
                                                        : std::vector<float>{static_cast<float>(buffer.tensor.item())});
    }
    return all;
  }
};

void expect_same_state(const Network& a, const Network& b) {
  const auto left = a.state(), right = b.state();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) ExpectSameBits(left[i], right[i]);
}

TEST(Cases, H_NUM_02_StatisticsMoveOnceInABlock) {
  BatchNorm2d norm(1);
  Tensor x = Tensor::from_vector({4, 1, 1, 1}, std::vector<float>{1, 2, 3, 6});
  set_requires_grad(x);
  const Tensor y = checkpoint([&](const Tensor& input) { return norm(input); }, x);
  backward(y, Tensor::full(y.shape(), 1));
  const std::vector<NamedTensor> buffers = norm.buffers();
  const double tol = tolerance<float>(4, OpClass::reduction);
  ExpectClose(std::vector<double>{buffers[0].tensor.item(), buffers[1].tensor.item()},
              std::vector<double>{0.3, 1.3666667}, tol);
  EXPECT_EQ(buffers[2].tensor.item(), 1);
}

TEST(Cases, H_NUM_02_ResNet50IsBitEqualAfterTwentySteps) {
  Network plain("resnet50", false, Device::cpu()), blocks("resnet50", true, Device::cpu());
#ifdef ENGINE_SANITIZED
  constexpr int64_t kSteps = 2;
#else
  constexpr int64_t kSteps = 20;
#endif
  plain.train(kSteps, 4, 32);
  blocks.train(kSteps, 4, 32);
  expect_same_state(plain, blocks);
}

TEST(Checkpointing, BlocksAreFoundByName) {
  const auto model = models::find_model("resnet18").make({.num_classes = 10});
  std::vector<std::string> names;
  for (const auto& [name, block] : model->blocks()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer3.0", "layer3.1",
                                             "layer4.0", "layer4.1"}));
  EXPECT_TRUE(models::find_model("simplecnn").make({.num_classes = 10})->blocks().empty());
}

TEST(Checkpointing, LessIsKept) {
  std::vector<int64_t> peaks;
  for (const bool checkpointed : {false, true}) {
    Network network("resnet50", checkpointed, Device::cpu());
    const int64_t before = memory_stats().live[static_cast<size_t>(MemoryCategory::activations)];
    reset_memory_peaks();
    network.train(1, 8, 64);
    peaks.push_back(memory_stats().peak[static_cast<size_t>(MemoryCategory::activations)] - before);
  }
  EXPECT_LE(2 * peaks[1], peaks[0]);
}

class CheckpointingOnDevice : public AcceleratorTest {};

TEST_F(CheckpointingOnDevice, IsBitEqualWithAndWithoutAGraph) {
  for (const bool recorded : {true, false}) {
    SCOPED_TRACE(recorded ? "recorded" : "not recorded");
    Network plain("resnet18", false, Device::accelerator(), {.recorded = recorded});
    Network blocks("resnet18", true, Device::accelerator(), {.recorded = recorded});
    plain.train(3, 2, 32);
    blocks.train(3, 2, 32);
    expect_same_state(plain, blocks);
  }
}

}  // namespace
}  // namespace engine::testing
