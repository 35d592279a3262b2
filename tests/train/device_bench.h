#pragma once
// Single steps of a model on a device, for tests.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "engine/train/train_step.h"
#include "tests/support/fake_source.h"
#include "tests/support/tiny_models.h"

namespace engine::testing {

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

/// On the CPU: each weight becomes one of its neighbours among the floats, as another rounding would have it.
inline void round_otherwise(const FlatParameters& flat) {
  auto* weights = flat.master().data<float>();
  for (int64_t i = 0; i < flat.size(); ++i) {
    const float towards = (i / 3) % 2 == 0 ? std::numeric_limits<float>::infinity() : -1.0F;
    if (weights[i] != 0) weights[i] = std::nextafter(weights[i], towards);
  }
}

using MicroBatches = std::vector<std::vector<int64_t>>;

/// A step but for its end.
inline void add_batches(Bench& bench, const FakeSource& source, const MicroBatches& micro_batches) {
  int64_t all = 0;
  for (const auto& samples : micro_batches) all += static_cast<int64_t>(samples.size());
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    Batch batch = source.batch_of(micro_batches[i]);
    batch.global_samples = all;
    batch.last_of_step = i + 1 == micro_batches.size();
    bench.step.add(batch);
  }
}

inline StepOutcome run_step(Bench& bench, const FakeSource& source, const MicroBatches& micro_batches, double lr) {
  add_batches(bench, source, micro_batches);
  return bench.step.finish(lr);
}

inline void expect_equal(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]) << "part " << i;
}

}  // namespace engine::testing
