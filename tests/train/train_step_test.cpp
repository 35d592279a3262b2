#include "engine/train/train_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/ops/linear.h"
#include "engine/train/evaluation.h"
#include "tests/support/fake_source.h"
#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

OptimizerConfig sgd(double momentum = 0.9) {
  OptimizerConfig config;
  config.momentum = momentum;
  return config;
}

/// A model with all that trains it.
struct Bench {
  std::unique_ptr<Module> model;
  FlatParameters flat;
  std::unique_ptr<Optimizer> optimizer;
  WeightAverage average;
  TrainStep step;

  explicit Bench(std::unique_ptr<Module> made, const OptimizerConfig& config = sgd(),
                 const TrainStepOptions& options = {})
      : model(std::move(made)),
        flat(*model),
        optimizer(make_optimizer(config, flat)),
        average(*model, flat, 0.9),
        step({model.get(), &flat, optimizer.get(), &average}, options) {}

  /// All that a step may change.
  std::vector<std::vector<float>> state() const {
    std::vector<std::vector<float>> all = {flat.master().to_vector<float>()};
    for (const OptimizerSlot& slot : optimizer->slots()) all.push_back(slot.buffer.to_vector<float>());
    std::vector<NamedTensor> more = model->buffers();
    const auto averaged = average.tensors();
    more.insert(more.end(), averaged.begin(), averaged.end());
    for (const NamedTensor& named : more) {
      if (named.tensor.dtype() == DType::f32) {
        all.push_back(named.tensor.to_vector<float>());
      } else {
        all.push_back({static_cast<float>(named.tensor.item())});
      }
    }
    all.push_back({static_cast<float>(optimizer->applied_steps())});
    return all;
  }
};

/// The samples cut into micro-batches of one global batch.
StepOutcome run_step(Bench& bench, const std::vector<std::vector<int64_t>>& micro_batches, double lr = 0.1,
                     int64_t poisoned = -1) {
  FakeSource source;
  source.poison(poisoned);
  int64_t all = 0;
  for (const auto& samples : micro_batches) all += static_cast<int64_t>(samples.size());
  for (const auto& samples : micro_batches) {
    Batch batch = source.batch_of(samples);
    batch.global_samples = all;
    bench.step.add(batch);
  }
  return bench.step.finish(lr);
}

TEST(Cases, H_NUM_05_AccumulationEqualsOneBigBatch) {
  Bench whole(make_plain_model()), parts(make_plain_model()), uneven(make_plain_model());
  for (int step = 0; step < 3; ++step) {
    const StepOutcome a = run_step(whole, {{0, 1, 2, 3, 4, 5, 6, 7}}),
                      b = run_step(parts, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}),
                      c = run_step(uneven, {{0, 1, 2, 3, 4}, {5}, {}, {6, 7}});
    const double tol = tolerance<float>(8, OpClass::reduction);
    for (const StepOutcome& outcome : {b, c}) {
      EXPECT_EQ(outcome.images, 8);
      EXPECT_EQ(outcome.samples, a.samples);
      ExpectClose(std::vector<double>{outcome.loss, outcome.grad_norm}, std::vector<double>{a.loss, a.grad_norm}, tol);
    }
    ExpectClose(parts.flat.master().to_vector<float>(), whole.flat.master().to_vector<float>(), tol, "4 x 2");
    ExpectClose(uneven.flat.master().to_vector<float>(), whole.flat.master().to_vector<float>(), tol, "5 + 1 + 2");
    EXPECT_EQ(parts.optimizer->applied_steps(), step + 1);
  }
}

TEST(TrainStep, TheLossIsTheMeanOverTheGlobalBatch) {
  Bench bench(make_plain_model());
  bench.flat.master().fill(0);  // all classes alike: log 3 a picture
  const StepOutcome outcome = run_step(bench, {{0, 1}, {2}});
  ExpectClose(std::vector<double>{outcome.loss}, std::vector<double>{std::log(3.0)},
              tolerance<float>(3, OpClass::transcendental));
}

TEST(TrainStep, SmoothsLabelsInTraining) {
  Bench plain(make_plain_model()), smooth(make_plain_model(), sgd(), {.label_smoothing = 0.5});
  EXPECT_NE(run_step(plain, {{0, 1}}).loss, run_step(smooth, {{0, 1}}).loss);
}

/// Two weights without a bias, whose gradient for the one class of label 0 is what the picture says.
class TwoWeights final : public Module {
 public:
  TwoWeights() : weight_(Tensor::zeros({2, 1}, DType::f32, MemoryCategory::parameters)) {
    NamedTensor description;
    description.name = "weight";
    register_parameter(description, weight_);
  }
  Tensor forward(const Tensor& x) override { return linear(x, weight_); }
  Shape describe(const std::string&, const Shape&, std::vector<LayerDescription>&) const override { return Shape{2}; }

 private:
  Tensor weight_;
};

TEST(Cases, H_NUM_04_ClipsTheNormOfTheSum) {
  OptimizerConfig config = sgd(0);
  config.weight_decay = 0;
  config.clip_grad_norm = 1;
  Bench bench(std::make_unique<TwoWeights>(), config, {.clip_grad_norm = 1});
  // Softmax of (0, 0) gives the gradient (-x / 2, x / 2): a norm of 2 for x = 2 sqrt 2.
  Batch batch;
  const auto x = static_cast<float>(2 * std::sqrt(2.0));
  batch.images = Tensor::from_vector<float>({1, 1}, {x});
  batch.labels = Tensor::from_vector<int64_t>({1}, {0});
  batch.samples = {0};
  batch.global_samples = 1;
  bench.step.add(batch);
  const StepOutcome outcome = bench.step.finish(0.1);
  const double tol = tolerance<float>(2, OpClass::transcendental);
  ExpectClose(std::vector<double>{outcome.grad_norm}, std::vector<double>{2.0}, tol, "norm");
  const double moved = 0.1 / std::sqrt(2.0);
  // PyTorch divides by the norm and 1e-6 more.
  const double share = 2 / (2 + 1e-6);
  ExpectClose(bench.flat.views(bench.flat.master())[0].tensor.to_vector<float>(),
              std::vector<double>{moved * share, -moved * share}, tol, "weights");
}

TEST(Cases, H_NUM_04_TheCasesOwnNumbers) {
  // The gradient (1.2, 1.6) is put where the norm is taken from.
  const auto model = std::make_unique<TwoWeights>();
  FlatParameters flat(*model);
  OptimizerConfig config = sgd(0);
  config.weight_decay = 0;
  const auto optimizer = make_optimizer(config, flat);
  TrainStep step({model.get(), &flat, optimizer.get(), nullptr}, {.clip_grad_norm = 1});
  Batch batch;
  batch.images = Tensor::full({1, 1}, 0);
  batch.labels = Tensor::from_vector<int64_t>({1}, {0});
  batch.samples = {0};
  batch.global_samples = 1;
  step.add(batch);
  flat.gradients().data<float>()[0] = 1.2F;
  flat.gradients().data<float>()[1] = 1.6F;
  const StepOutcome outcome = step.finish(0.1);
  const double tol = tolerance<float>(2, OpClass::transcendental);
  ExpectClose(std::vector<double>{outcome.grad_norm}, std::vector<double>{2.0}, tol, "norm");
  ExpectClose(flat.views(flat.master())[0].tensor.to_vector<float>(), std::vector<double>{-0.06, -0.08},
              tolerance<float>(200, OpClass::reduction), "weights");
}

TEST(TrainStep, SmallGradientsAreNotClipped) {
  Bench clipped(make_plain_model(), sgd(), {.clip_grad_norm = 1e6}), plain(make_plain_model());
  run_step(clipped, {{0, 1, 2}});
  run_step(plain, {{0, 1, 2}});
  ExpectSameBits(clipped.flat.master().to_vector<float>(), plain.flat.master().to_vector<float>());
}

TEST(TrainStep, AStepThatIsNotFiniteChangesNothing) {
  for (const bool first : {true, false}) {
    Bench bench(make_tiny_model());
    run_step(bench, {{0, 1, 2}, {3, 4, 5}});
    const auto before = bench.state();
    const int64_t poisoned = first ? 6 : 9;
    const StepOutcome outcome = run_step(bench, {{6, 7, 8}, {9, 10, 11}, {}}, 0.1, poisoned);
    EXPECT_FALSE(outcome.applied);
    EXPECT_FALSE(std::isfinite(outcome.loss));
    EXPECT_EQ(outcome.samples, (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
    // The micro-batch to look at is the one that went wrong.
    EXPECT_EQ(outcome.suspect.samples, first ? (std::vector<int64_t>{6, 7, 8}) : (std::vector<int64_t>{9, 10, 11}));
    EXPECT_EQ(bench.state(), before);
    // And the next step goes on as if it had not been.
    Bench straight(make_tiny_model());
    run_step(straight, {{0, 1, 2}, {3, 4, 5}});
    run_step(straight, {{12, 13, 14}});
    EXPECT_TRUE(run_step(bench, {{12, 13, 14}}).applied);
    EXPECT_EQ(bench.state(), straight.state());
  }
}

TEST(TrainStep, GradientsThatAreNotFiniteChangeNothing) {
  Bench bench(make_tiny_model());
  FakeSource source;
  bench.step.add(source.batch_of({0, 1, 2}));
  bench.flat.gradients().data<float>()[0] = std::numeric_limits<float>::infinity();
  const auto weights = bench.flat.master().to_vector<float>();
  const StepOutcome outcome = bench.step.finish(0.1);
  EXPECT_FALSE(outcome.applied);
  EXPECT_TRUE(std::isfinite(outcome.loss));
  ExpectSameBits(bench.flat.master().to_vector<float>(), weights);
  EXPECT_EQ(bench.optimizer->applied_steps(), 0);
}

TEST(TrainStep, StatisticsMoveOnceAMicroBatch) {
  Bench bench(make_tiny_model());
  run_step(bench, {{0, 1}, {2, 3}, {4, 5}});
  EXPECT_EQ(bench.model->buffers()[2].tensor.item(), 3);
}

TEST(Cases, H_REQ_01_TheAverageMovesOnceAStep) {
  Bench bench(make_plain_model());
  const auto before = bench.flat.master().to_vector<float>();
  run_step(bench, {{0, 1}, {2, 3}, {4, 5}});
  const auto after = bench.flat.views(bench.flat.master())[0].tensor.to_vector<float>();
  std::vector<double> expected;
  for (size_t i = 0; i < after.size(); ++i) expected.push_back(0.9 * before[i] + 0.1 * after[i]);
  EXPECT_NE(after, std::vector<float>(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(after.size())));
  ExpectClose(bench.average.tensors()[0].tensor.to_vector<float>(), expected, tolerance<float>(1, OpClass::elementwise),
              "average");
}

TEST(TrainStep, EmptyBatchesAreNoStep) {
  Bench bench(make_tiny_model());
  const auto before = bench.state();
  Batch none;
  none.images = Tensor::zeros({0, 6, 6, 2});
  none.labels = Tensor::zeros({0}, DType::i64);
  bench.step.add(none);
  const StepOutcome outcome = bench.step.finish(0.1);
  EXPECT_EQ(outcome.images, 0);
  EXPECT_FALSE(outcome.applied);
  EXPECT_EQ(bench.state(), before);
}

TEST(TrainStep, KeepsNoMemoryBetweenSteps) {
  Bench bench(make_tiny_model());
  run_step(bench, {{0, 1, 2}});
  const int64_t before = memory_stats().live_total;
  for (int i = 0; i < 3; ++i) run_step(bench, {{0, 1, 2}, {3, 4}});
  EXPECT_EQ(memory_stats().live_total, before);
}

TEST(FirstNonfiniteLayer, NamesTheLayer) {
  Bench bench(make_tiny_model());
  FakeSource source;
  const Batch batch = source.batch_of({0, 1, 2});
  EXPECT_EQ(first_nonfinite_layer(*bench.model, batch), "the gradients");
  const auto before = bench.state();
  for (const size_t parameter : {0u, 2u, 4u}) {
    const Tensor weight = bench.flat.ranges()[parameter].parameter.tensor;
    const float kept = weight.data<float>()[1];
    weight.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    const std::string name = bench.flat.ranges()[parameter].parameter.name;
    EXPECT_EQ(first_nonfinite_layer(*bench.model, batch) + ".weight", name);
    weight.data<float>()[1] = kept;
  }
  source.poison(1);
  EXPECT_EQ(first_nonfinite_layer(*bench.model, source.batch_of({0, 1, 2})), "the pictures");
  EXPECT_EQ(bench.state(), before);
}

TEST(FirstNonfiniteLayer, LeavesNoObserverBehind) {
  Bench bench(make_tiny_model());
  FakeSource source;
  Batch odd = source.batch_of({0, 1});
  odd.images = Tensor::zeros({2, 5, 5, 2});
  EXPECT_THROW(first_nonfinite_layer(*bench.model, odd), Error);
  run_step(bench, {{0, 1, 2}});  // would call what is gone
}

TEST(WeightsFinite, SeesWeightsAndStatistics) {
  Bench bench(make_tiny_model());
  const TrainedParts parts{bench.model.get(), &bench.flat, bench.optimizer.get(), nullptr};
  EXPECT_TRUE(weights_finite(parts));
  const Tensor variance = bench.model->buffers()[1].tensor;
  for (const Tensor& tensor : {bench.flat.master(), variance}) {
    const float kept = tensor.data<float>()[0];
    tensor.data<float>()[0] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(weights_finite(parts));
    tensor.data<float>()[0] = kept;
  }
}

TEST(Evaluation, CountsEachPictureOnceWithoutSmoothing) {
  Bench bench(make_tiny_model());
  FakeSource source({.samples = 11, .batch_size = 4, .training = false});
  const auto before = bench.state();
  const auto report = evaluate_model(*bench.model, source);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->images, 11);
  EXPECT_EQ(source.handed_out(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(bench.state(), before);
  EXPECT_TRUE(bench.model->training());
  // The same pictures in other batches, the last of one picture.
  FakeSource other({.samples = 11, .batch_size = 5, .training = false});
  const auto again = evaluate_model(*bench.model, other);
  ExpectClose(std::vector<double>{again->val_loss}, std::vector<double>{report->val_loss},
              tolerance<float>(144, OpClass::reduction));
  EXPECT_EQ(again->val_top1, report->val_top1);
  EXPECT_EQ(report->val_top5, 100);
}

TEST(Evaluation, IsCancelledBetweenBatches) {
  Bench bench(make_tiny_model());
  FakeSource source({.samples = 12, .batch_size = 4, .training = false});
  int asked = 0;
  EvaluationOptions options;
  options.cancelled = [&] { return ++asked == 2; };
  EXPECT_FALSE(evaluate_model(*bench.model, source, options).has_value());
  EXPECT_EQ(source.handed_out().size(), 8u);
  EXPECT_TRUE(bench.model->training());
}

TEST(Evaluation, NeedsAPicture) {
  Bench bench(make_tiny_model());
  FakeSource none({.samples = 0, .training = false});
  EXPECT_THROW(evaluate_model(*bench.model, none), DataError);
  EXPECT_TRUE(bench.model->training());
}

}  // namespace
}  // namespace engine::testing
