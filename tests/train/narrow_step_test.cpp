// Steps in FP16 and BF16 on the CPU.

#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/cast.h"
#include "models/registry.h"
#include "tests/support/distance.h"
#include "tests/support/tolerance.h"
#include "tests/train/device_bench.h"

namespace engine::testing {
namespace {

struct NarrowNetwork {
  const char* model;
  FakeSourceOptions data;
  double lr;
};

#ifdef ENGINE_SANITIZED
constexpr int64_t kSteps = 2;  // ten take minutes
#else
constexpr int64_t kSteps = 10;
#endif

std::vector<std::vector<float>> ten_steps(const NarrowNetwork& network, DType compute) {
  const double scale = compute == DType::f32 ? 1 : 128;
  Bench bench(models::find_model(network.model).make({.num_classes = network.data.classes, .seed = 3}), Device::cpu(),
              {}, {.loss_scale = scale}, compute);
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

class NarrowNetworkTest : public ::testing::TestWithParam<NarrowNetwork> {};

// The bounds that the accelerator's steps are held to (device_step_test.cpp).
TEST_P(NarrowNetworkTest, TenStepsFollowFp32) {
  const auto truth = ten_steps(GetParam(), DType::f32);
  for (const DType compute : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(name_of(compute));
    const auto got = ten_steps(GetParam(), compute);
    const double roundoff = compute == DType::f16 ? kUnitRoundoffF16 : kUnitRoundoffBf16;
    // Weights, running statistics, and momentum, which for a ResNet whose last batch norms see four values is all
    // rounding.
    const size_t parts = std::string_view(GetParam().model) == "simplecnn" ? 3 : 2;
    for (size_t part = 0; part < parts; ++part) {
      EXPECT_LE(distance(got[part], truth[part]), tolerance(roundoff, 20, OpClass::reduction)) << "part " << part;
    }
    EXPECT_NE(got.front(), truth.front());
    expect_equal(ten_steps(GetParam(), compute), got);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Networks, NarrowNetworkTest,
    ::testing::Values(
        NarrowNetwork{"simplecnn", {.samples = 32, .batch_size = 8, .size = 28, .channels = 1, .classes = 10}, 0.01},
        NarrowNetwork{"resnet18", {.samples = 16, .batch_size = 4, .size = 32, .channels = 3, .classes = 10}, 1e-6}),
    [](const auto& instance) { return std::string(instance.param.model); });

TEST(NarrowStep, ALossScaleIsTakenOutAgain) {
  const FakeSource source;
  Bench plain(make_tiny_model(), Device::cpu());
  Bench scaled(make_tiny_model(), Device::cpu(), {}, {.loss_scale = 1024});
  for (int step = 0; step < 3; ++step) {
    const StepOutcome a = run_step(plain, source, {{0, 1, 2, 3}}, 0.05);
    const StepOutcome b = run_step(scaled, source, {{0, 1, 2, 3}}, 0.05);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
  }
  // A power of two: nothing is rounded another way.
  expect_equal(scaled.state(), plain.state());
}

TEST(NarrowStep, ClippingSeesUnscaledGradients) {
  const FakeSource source;
  Bench plain(make_tiny_model(), Device::cpu(), {}, {.clip_grad_norm = 0.01});
  Bench scaled(make_tiny_model(), Device::cpu(), {}, {.clip_grad_norm = 0.01, .loss_scale = 1024});
  for (int step = 0; step < 3; ++step) {
    run_step(plain, source, {{0, 1, 2, 3}}, 0.05);
    run_step(scaled, source, {{0, 1, 2, 3}}, 0.05);
  }
  expect_equal(scaled.state(), plain.state());
}

TEST(NarrowStep, GradientsThatUnderflowSurviveWithAScale) {
  const FakeSource source;
  // A global batch of which this is a small part: its gradients lie below FP16's smallest number.
  const auto norm_with = [&](double scale) {
    Bench bench(make_plain_model(), Device::cpu(), {}, {.loss_scale = scale}, DType::f16);
    Batch batch = source.batch_of({0, 1});
    batch.global_samples = int64_t{1} << 28;
    bench.step.add(batch);
    return bench.step.finish(0.05).grad_norm;
  };
  EXPECT_EQ(norm_with(1), 0);
  const double with_scale = norm_with(65536);
  EXPECT_GT(with_scale, 0);
  EXPECT_LT(with_scale, 1e-6);
}

TEST(NarrowStep, AnOverflowChangesNothing) {
  const FakeSource source;
  Bench bench(make_tiny_model(), Device::cpu(), {}, {.loss_scale = 0x1p30}, DType::f16);
  const auto before = bench.state();
  const StepOutcome outcome = run_step(bench, source, {{0, 1, 2, 3}}, 0.05);
  EXPECT_FALSE(outcome.applied);
  EXPECT_TRUE(std::isfinite(outcome.loss));
  EXPECT_FALSE(std::isfinite(outcome.grad_norm));
  expect_equal(bench.state(), before);
}

TEST(NarrowStep, MicroBatchesAddUpInEveryType) {
  const FakeSource source({.samples = 40});
  for (const DType compute : {DType::f16, DType::bf16}) {
    Bench whole(make_plain_model(), Device::cpu(), {}, {}, compute),
        parts(make_plain_model(), Device::cpu(), {}, {}, compute);
    for (int step = 0; step < 4; ++step) {
      run_step(whole, source, {{0, 1, 2, 3, 4, 5, 6, 7}}, 0.05);
      run_step(parts, source, {{0, 1}, {}, {2, 3}, {4, 5}, {6, 7}}, 0.05);
    }
    const double roundoff = compute == DType::f16 ? kUnitRoundoffF16 : kUnitRoundoffBf16;
    EXPECT_LE(distance(parts.state().front(), whole.state().front()), tolerance(roundoff, 4, OpClass::reduction));
  }
}

TEST(NarrowStep, HalvesTheActivations) {
  const FakeSourceOptions data{.samples = 8, .batch_size = 4, .size = 64, .channels = 3, .classes = 10};
  const FakeSource source(data);
  const auto peak_of = [&](DType compute) {
    Bench bench(models::find_model("resnet18").make({.num_classes = 10, .seed = 3}), Device::cpu(), {}, {}, compute);
    reset_memory_peaks();
    run_step(bench, source, {{0, 1, 2, 3}}, 1e-3);
    return static_cast<double>(memory_stats().peak[static_cast<size_t>(MemoryCategory::activations)]);
  };
  const double wide = peak_of(DType::f32);
  for (const DType compute : {DType::f16, DType::bf16}) EXPECT_LE(peak_of(compute), 0.6 * wide) << name_of(compute);
}

}  // namespace
}  // namespace engine::testing
