// Steps on the accelerator of the build (emulated without CUDA) against steps on the CPU.

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/stream.h"
#include "engine/train/evaluation.h"
#include "engine/train/train_step.h"
#include "models/registry.h"
#include "tests/support/accelerator.h"
#include "tests/support/fake_source.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

/// Skips by name where the build's accelerator does not work here.
class DeviceStepTest : public AcceleratorTest {};

/// A model with all that trains it on a device.
struct Bench {
  std::unique_ptr<Module> model;
  FlatParameters flat;
  std::unique_ptr<Optimizer> optimizer;
  WeightAverage average;
  TrainStep step;

  Bench(std::unique_ptr<Module> made, Device device, const OptimizerConfig& config = {},
        const TrainStepOptions& options = {}, DType compute = DType::f32)
      : model(std::move(made)),
        flat(*model, device, compute),
        optimizer(make_optimizer(config, flat)),
        average(*model, flat, 0.9),
        step({model.get(), &flat, optimizer.get(), &average}, options) {}

  /// A flat buffer's parameters in the order of registration, which is not the buffer's in 16-bit types.
  std::vector<float> in_order(const Tensor& buffer) const {
    std::vector<float> values;
    for (const NamedTensor& view : flat.views(buffer)) {
      const auto part = view.tensor.to_vector<float>();
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  /// All that a step may change: weights, optimizer, statistics, counters, averages, count of updates.
  std::vector<std::vector<float>> state() const {
    std::vector<std::vector<float>> all = {in_order(flat.master()), flat.statistics().to_vector<float>()};
    for (const OptimizerSlot& slot : optimizer->slots()) all.push_back(in_order(slot.buffer));
    for (const NamedTensor& named : average.tensors()) {
      all.push_back(named.tensor.dtype() == DType::f32 ? named.tensor.to_vector<float>()
                                                       : std::vector<float>{static_cast<float>(named.tensor.item())});
    }
    for (const NamedTensor& counter : flat.counters()) all.push_back({static_cast<float>(counter.tensor.item())});
    all.push_back({static_cast<float>(optimizer->applied_steps())});
    return all;
  }
};

/// One step of given micro-batches.
StepOutcome run_step(Bench& bench, const FakeSource& source, const std::vector<std::vector<int64_t>>& micro_batches,
                     double lr) {
  int64_t all = 0;
  for (const auto& samples : micro_batches) all += static_cast<int64_t>(samples.size());
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    Batch batch = source.batch_of(micro_batches[i]);
    batch.global_samples = all;
    batch.last_of_step = i + 1 == micro_batches.size();
    bench.step.add(batch);
  }
  return bench.step.finish(lr);
}

void expect_equal(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]) << "part " << i;
}

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

/// Ten steps of a network on a device; 16-bit types with a fixed loss scale.
std::vector<std::vector<float>> ten_steps(const NetworkCase& network, Device device, bool recorded,
                                          DType compute = DType::f32) {
  const double scale = compute == DType::f32 ? 1 : 128;
  Bench bench(models::find_model(network.model).make({.num_classes = network.data.classes, .seed = 3}), device, {},
              {.recorded = recorded, .loss_scale = scale}, compute);
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

// Batch norm over few values blows up any rounding error: on the CPU alone one thread or two, which add up in another
// order, end so far apart. That distance is the yardstick, part by part; the learning rate keeps it short.
TEST_P(NetworkTest, TenStepsEqualTheCpusInEveryOrder) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one_thread = ten_steps(GetParam(), Device::cpu(), false);
  omp_set_num_threads(2);
  const auto truth = ten_steps(GetParam(), Device::cpu(), false);
  const auto plain = ten_steps(GetParam(), Device::accelerator(), false);
  double yardstick = tolerance<float>(64, OpClass::transcendental);
  for (size_t i = 0; i < truth.size(); ++i) yardstick = std::max(yardstick, deviation(one_thread[i], truth[i]));
  EXPECT_LT(yardstick, kLongestYardstick) << "too long to tell anything";
  for (size_t i = 0; i < truth.size(); ++i)
    EXPECT_LE(deviation(plain[i], truth[i]), kMostYardsticks * yardstick) << "part " << i;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const ScheduleScope order(seed);
    expect_equal(ten_steps(GetParam(), Device::accelerator(), true), plain);
  }
  omp_set_num_threads(threads);
}

/// Root mean square of the difference over that of the values.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
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
