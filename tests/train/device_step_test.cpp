// Steps on the accelerator of the build (emulated without CUDA) against steps on the CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/stream.h"
#include "engine/train/evaluation.h"
#include "models/registry.h"
#include "models/resnet.h"
#include "tests/support/accelerator.h"
#include "tests/support/distance.h"
#include "tests/support/tolerance.h"
#include "tests/train/device_bench.h"

namespace engine::testing {
namespace {

/// Skips by name where the build's accelerator does not work here.
class DeviceStepTest : public AcceleratorTest {};

void expect_close(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want, double tol) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ExpectClose(got[i], want[i], tol, "part " + std::to_string(i));
}

OptimizerConfig optimizer_of(const std::string& name) {
  OptimizerConfig config;
  config.opt = name;
  config.norm_weight_decay = 0;
  return config;
}

TEST_F(DeviceStepTest, EachOptimizerUpdatesAsOnTheCpu) {
  const FakeSource source;
  for (const std::string& name : optimizer_names()) {
    SCOPED_TRACE(name);
    const double lr = name.starts_with("adam") ? 1e-3 : 0.05;
    Bench cpu(make_plain_model(), Device::cpu(), optimizer_of(name));
    Bench device(make_plain_model(), Device::accelerator(), optimizer_of(name));
    for (int64_t step = 0; step < 5; ++step) {
      const std::vector<int64_t> samples = {step, step + 1, step + 2, step + 3};
      const StepOutcome a = run_step(cpu, source, {samples}, lr), b = run_step(device, source, {samples}, lr);
      EXPECT_TRUE(b.applied);
      EXPECT_EQ(b.samples, a.samples);
      const double tol = tolerance<float>(4096, OpClass::transcendental);
      ExpectClose(std::vector<double>{b.loss, b.grad_norm}, std::vector<double>{a.loss, a.grad_norm}, tol);
    }
    expect_close(device.state(), cpu.state(), tolerance<float>(65536, OpClass::transcendental));
  }
}

TEST_F(DeviceStepTest, RecordedStepsHaveTheBitsOfUnrecordedOnes) {
  const FakeSource source({.samples = 40});
  std::vector<std::vector<std::vector<float>>> states;
  for (const bool recorded : {true, false}) {
    Bench bench(make_tiny_model(), Device::accelerator(), {}, {.recorded = recorded});
    for (int64_t step = 0; step < 6; ++step) {
      // The last batch of an epoch is smaller; micro-batches come in several sizes.
      if (step % 3 == 2) {
        run_step(bench, source, {{step, step + 1, step + 2}}, 0.05);
      } else {
        run_step(bench, source, {{step, step + 1}, {step + 2, step + 3}, {step + 4, step + 5}}, 0.05);
      }
    }
    states.push_back(bench.state());
  }
  expect_equal(states[0], states[1]);
}

TEST_F(DeviceStepTest, MicroBatchesAddUpToOneBigBatch) {
  const FakeSource source({.samples = 40});
  Bench whole(make_plain_model(), Device::accelerator()), parts(make_plain_model(), Device::accelerator());
  for (int step = 0; step < 4; ++step) {
    run_step(whole, source, {{0, 1, 2, 3, 4, 5, 6, 7}}, 0.05);
    run_step(parts, source, {{0, 1}, {}, {2, 3}, {4, 5}, {6, 7}}, 0.05);
  }
  expect_close(parts.state(), whole.state(), tolerance<float>(4096, OpClass::reduction));
}

TEST_F(DeviceStepTest, AStepThatIsNotFiniteChangesNothing) {
  FakeSource source({.samples = 40});
  for (const bool recorded : {false, true}) {
    Bench bench(make_tiny_model(), Device::accelerator(), {}, {.recorded = recorded});
    const std::vector<std::vector<int64_t>> batches = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    for (int step = 0; step < 3; ++step) EXPECT_TRUE(run_step(bench, source, batches, 0.05).applied);
    const auto before = bench.state();
    source.poison(5);
    for (int step = 0; step < 2; ++step) {
      const StepOutcome outcome = run_step(bench, source, batches, 0.05);
      EXPECT_FALSE(outcome.applied);
      EXPECT_FALSE(std::isfinite(outcome.loss));
      expect_equal(bench.state(), before);
    }
    source.poison(-1);
    EXPECT_TRUE(run_step(bench, source, batches, 0.05).applied);
    EXPECT_NE(bench.state(), before);
  }
}

TEST_F(DeviceStepTest, ALossScaleIsTakenOutAgain) {
  const FakeSource source;
  Bench plain(make_tiny_model(), Device::accelerator());
  Bench scaled(make_tiny_model(), Device::accelerator(), {}, {.clip_grad_norm = 0, .loss_scale = 1024});
  for (int step = 0; step < 3; ++step) {
    const StepOutcome a = run_step(plain, source, {{0, 1, 2, 3}}, 0.05);
    const StepOutcome b = run_step(scaled, source, {{0, 1, 2, 3}}, 0.05);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
  }
  // A power of two: nothing is rounded another way.
  expect_equal(scaled.state(), plain.state());
}

TEST_F(DeviceStepTest, EvaluatesAsOnTheCpu) {
  Bench cpu(make_tiny_model(), Device::cpu()), device(make_tiny_model(), Device::accelerator());
  FakeSource source({.samples = 22, .training = false});
  const EvalReport a = evaluate_model(*cpu.model, source).value(), b = evaluate_model(*device.model, source).value();
  EXPECT_EQ(b.images, 22);
  EXPECT_EQ(b.val_top1, a.val_top1);
  EXPECT_EQ(b.val_top5, a.val_top5);
  ExpectClose(std::vector<double>{b.val_loss}, std::vector<double>{a.val_loss},
              tolerance<float>(22, OpClass::transcendental));
}

/// ResNet-18 with a quarter of its channels, which the emulated device runs in reasonable time.
std::unique_ptr<Module> make_network(const std::string& name, const models::ModelOptions& options) {
  if (name != "resnet18") return models::find_model(name).make(options);
  return models::make_resnet({.bottleneck = false, .blocks = {2, 2, 2, 2}, .width = 16}, options);
}

struct NetworkCase {
  const char* model;
  FakeSourceOptions data;
  double lr;
};

#ifdef ENGINE_SANITIZED
constexpr int64_t kSteps = 2;  // ten take minutes
constexpr uint64_t kSeeds = 1;
#else
constexpr int64_t kSteps = 10;
constexpr uint64_t kSeeds = 5;
#endif
constexpr uint64_t kMostSeeds = 4;

/// Ten steps of a network on a device; 16-bit types with a fixed loss scale.
std::vector<std::vector<float>> ten_steps(const NetworkCase& network, Device device, bool recorded,
                                          DType compute = DType::f32, bool rounded_otherwise = false,
                                          uint64_t seed = 3) {
  const double scale = compute == DType::f32 ? 1 : 128;
  Bench bench(make_network(network.model, {.num_classes = network.data.classes, .seed = seed}), device, {},
              {.recorded = recorded, .loss_scale = scale}, compute);
  if (rounded_otherwise) round_otherwise(bench.flat);
  const FakeSource source(network.data);
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<int64_t> samples(static_cast<size_t>(network.data.batch_size));
    for (size_t i = 0; i < samples.size(); ++i) {
      samples[i] = (step + 3 * static_cast<int64_t>(i)) % network.data.samples;
    }
    EXPECT_TRUE(run_step(bench, source, {samples}, network.lr).applied) << network.model << " step " << step;
  }
  return bench.state();
}

/// The largest difference as a share of the values' scale.
double deviation(const std::vector<float>& got, const std::vector<float>& want) {
  double largest = 0, scale = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(static_cast<double>(got[i]) - want[i]));
    scale = std::max(scale, std::abs(static_cast<double>(want[i])));
  }
  return scale == 0 ? largest : largest / scale;
}

class NetworkTest : public AcceleratorTest, public ::testing::WithParamInterface<NetworkCase> {};

/// Whether ten steps on the accelerator end as near to the CPU's as runs on the CPU do that begin with weights which
/// are neighbours among the floats: batch norm over few values blows up any rounding error.
bool ends_near_the_cpus(const NetworkCase& network, uint64_t seed) {
  const auto neighbour = ten_steps(network, Device::cpu(), false, DType::f32, true, seed);
  const auto truth = ten_steps(network, Device::cpu(), false, DType::f32, false, seed);
  const auto plain = ten_steps(network, Device::accelerator(), false, DType::f32, false, seed);
  double yardstick = tolerance<float>(64, OpClass::transcendental), furthest = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    yardstick = std::max(yardstick, deviation(neighbour[i], truth[i]));
    furthest = std::max(furthest, deviation(plain[i], truth[i]));
  }
  return yardstick < kLongestYardstick && furthest <= kMostYardsticks * yardstick;
}

// An activation on a ReLU's edge falls to either side, and moves a gradient further than any rounding: it may do so
// with one seed or two, not with each of many.
TEST_P(NetworkTest, TenStepsEqualTheCpus) {
  bool near = false;
  for (uint64_t seed = 1; seed <= kMostSeeds && !near; ++seed) near = ends_near_the_cpus(GetParam(), seed);
  EXPECT_TRUE(near) << "with none of " << kMostSeeds << " seeds";
}

TEST_P(NetworkTest, TenStepsHaveTheSameBitsInEveryOrder) {
  const auto plain = ten_steps(GetParam(), Device::accelerator(), false);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const ScheduleScope order(seed);
    expect_equal(ten_steps(GetParam(), Device::accelerator(), true), plain);
  }
}

TEST_P(NetworkTest, TenStepsInHalfPrecisionFollowFp32) {
  const auto truth = ten_steps(GetParam(), Device::cpu(), false);
  for (const DType compute : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(name_of(compute));
    const auto plain = ten_steps(GetParam(), Device::accelerator(), false, compute);
    const double roundoff = compute == DType::f16 ? kUnitRoundoffF16 : kUnitRoundoffBf16;
    // Weights, running statistics, and momentum: what twenty layers make of each layer's rounding. The gradients of a
    // ResNet whose last batch norms see four values each are all rounding in 16 bits.
    const size_t parts = std::string_view(GetParam().model) == "simplecnn" ? 3 : 2;
    for (size_t part = 0; part < parts; ++part) {
      EXPECT_LE(distance(plain[part], truth[part]), tolerance(roundoff, 20, OpClass::reduction)) << "part " << part;
    }
    const ScheduleScope order(7);
    expect_equal(ten_steps(GetParam(), Device::accelerator(), true, compute), plain);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Networks, NetworkTest,
    ::testing::Values(
        NetworkCase{"simplecnn", {.samples = 32, .batch_size = 8, .size = 28, .channels = 1, .classes = 10}, 0.01},
        NetworkCase{"resnet18", {.samples = 16, .batch_size = 4, .size = 32, .channels = 3, .classes = 10}, 1e-6}),
    [](const auto& instance) { return std::string(instance.param.model); });

}  // namespace
}  // namespace engine::testing
