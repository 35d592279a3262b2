// What ops compute, where the kernels' tests and the golden files do not say it: conventions, views, modes, and the
// fast path against the reference on whole small networks.

#include <gtest/gtest.h>

#include <cmath>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/ops/add.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/bn_relu_max_pool.h"
#include "engine/ops/cast.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/cpu_path.h"
#include "engine/ops/dropout.h"
#include "engine/ops/linear.h"
#include "engine/ops/pool2d.h"
#include "engine/ops/relu.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/view.h"
#include "tests/support/gradcheck.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

/// Puts the path back.
class PathGuard {
 public:
  explicit PathGuard(CpuPath path) : before_(cpu_path()) { set_cpu_path(path); }
  ~PathGuard() { set_cpu_path(before_); }
  PathGuard(const PathGuard&) = delete;
  PathGuard& operator=(const PathGuard&) = delete;

 private:
  CpuPath before_;
};

Tensor random_f32(const Shape& shape, uint64_t key, double low = -1, double high = 1) {
  return Tensor::from_vector(shape, uniform<float>(shape.numel(), key, low, high));
}

using Floats = std::vector<float>;

TEST(Cases, H_NUM_01_BatchNormOpMovesStatisticsOnceAndInTrainingOnly) {
  for (const Shape& shape : {Shape{4, 1, 1, 1}, Shape{2, 1, 1, 2}}) {
    // The second shape is read as four pixels of one channel.
    const Tensor x = Tensor::from_vector<float>(shape, {1, 2, 3, 6}).view({4, 1, 1, 1});
    for (const CpuPath path : {CpuPath::fast, CpuPath::reference}) {
      const PathGuard guard(path);
      const BatchNormState state{Tensor::full({1}, 1), Tensor::full({1}, 0), Tensor::full({1}, 0),
                                 Tensor::full({1}, 1)};
      const double tol = tolerance<float>(4, OpClass::reduction);
      ExpectClose(batch_norm(x, state).to_vector<float>(), std::vector<double>{-1.0690434, -0.5345217, 0, 1.6035652},
                  tol, "output");
      ExpectClose(state.running_mean.to_vector<float>(), std::vector<double>{0.3}, tol, "running mean");
      ExpectClose(state.running_var.to_vector<float>(), std::vector<double>{1.3666667}, tol, "running variance");
      const Floats mean = state.running_mean.to_vector<float>(), var = state.running_var.to_vector<float>();
      batch_norm(x, state, {.training = false});
      ExpectSameBits(state.running_mean.to_vector<float>(), mean);
      ExpectSameBits(state.running_var.to_vector<float>(), var);
    }
  }
}

TEST(Cases, H_NUM_06_LabelSmoothingOfTheOp) {
  const Tensor labels = Tensor::from_vector<int64_t>({1}, {0});
  const auto loss_at = [&](double smoothing, std::vector<float>& gradient) {
    Tensor logits = Tensor::from_vector<float>({1, 3}, {2, 0, -1});
    set_requires_grad(logits);
    const Tensor loss = softmax_cross_entropy(logits, labels, {.label_smoothing = smoothing});
    backward(loss);
    gradient = grad_of(logits).to_vector<float>();
    return loss.item();
  };
  Floats gradient;
  const double tol = tolerance<float>(3, OpClass::transcendental);
  ExpectClose(std::vector<double>{loss_at(0.1, gradient)}, std::vector<double>{0.3365127}, tol, "loss");
  ExpectClose(gradient, std::vector<double>{-0.0895386, 0.0808619, 0.0086767}, tol, "gradient", 1);
  ExpectClose(std::vector<double>{loss_at(0, gradient)}, std::vector<double>{0.1698460}, tol, "without smoothing");
}

TEST(Ops, ViewsCopyNothing) {
  const Tensor x = random_f32({4, 3, 2}, 1);
  EXPECT_TRUE(reshape(x, {6, 4}).shares_memory_with(x));
  EXPECT_TRUE(flatten(x).shares_memory_with(x));
  EXPECT_EQ(flatten(x).shape(), (Shape{4, 6}));
  EXPECT_TRUE(transpose(x, 0, 1).shares_memory_with(x));
  EXPECT_TRUE(narrow(x, 1, 2).shares_memory_with(x));
  EXPECT_EQ(narrow(x, 1, 2).raw(), x.raw() + 24);
  EXPECT_EQ(flatten(Tensor::zeros({0, 3, 2})).shape(), (Shape{0, 6}));
  EXPECT_TRUE(cast(x, DType::f32).shares_memory_with(x));
}

TEST(Ops, DropoutScalesWhatItKeeps) {
  const Tensor x = Tensor::full({10000}, 1);
  const Floats y = dropout(x, {.probability = 0.25, .seed = 5}).to_vector<float>();
  int64_t kept = 0;
  for (const float value : y) {
    if (value != 0) ExpectClose(Floats{value}, Floats{4.0F / 3}, tolerance<float>(1, OpClass::elementwise));
    kept += value != 0 ? 1 : 0;
  }
  constexpr double kDeviations = 5;
  EXPECT_LE(std::abs(static_cast<double>(kept) - 7500), kDeviations * std::sqrt(10000 * 0.25 * 0.75));
  ExpectSameBits(dropout(x, {.probability = 0.25, .seed = 5}).to_vector<float>(), y);
  EXPECT_NE(dropout(x, {.probability = 0.25, .seed = 6}).to_vector<float>(), y);
  EXPECT_NE(dropout(x, {.probability = 0.25, .seed = 5, .offset = 1}).to_vector<float>(), y);
  ExpectSameBits(dropout(x, {.probability = 0.25, .training = false}).to_vector<float>(), x.to_vector<float>());
}

TEST(Ops, ReluAndMaxPoolHandNaNOn) {
  const float nan = std::nanf("");
  const Floats y = relu(Tensor::from_vector<float>({3}, {nan, -1, 2})).to_vector<float>();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0.0F);
  EXPECT_TRUE(std::isnan(max_pool2d(Tensor::from_vector<float>({1, 2, 2, 1}, {1, nan, 3, 4}), {}).item()));
}

TEST(Ops, PoolsOfKnownPictures) {
  const Tensor x = Tensor::from_vector<float>({1, 2, 2, 1}, {1, 2, 3, 4});
  EXPECT_EQ(max_pool2d(x, {2, 2, 0}).item(), 4);
  EXPECT_EQ(avg_pool2d(x, {2, 2, 0}).item(), 2.5);
  EXPECT_EQ(global_avg_pool(x).item(), 2.5);
  // Padding counts as zeros in a mean, and never wins a maximum.
  EXPECT_EQ(avg_pool2d(x, {2, 2, 1}).to_vector<float>(), (Floats{0.25F, 0.5F, 0.75F, 1}));
  const Tensor negative = Tensor::full({1, 2, 2, 1}, -5);
  EXPECT_EQ(max_pool2d(negative, {2, 2, 1}).to_vector<float>(), Floats(4, -5.0F));
}

TEST(Ops, AccuracyAndProbabilities) {
  const Tensor logits = Tensor::from_vector<float>({2, 3}, {1, 3, 2, 5, 0, 4});
  const Tensor labels = Tensor::from_vector<int64_t>({2}, {2, 2});
  EXPECT_EQ(topk_correct(logits, labels, 1), 0);
  EXPECT_EQ(topk_correct(logits, labels, 2), 2);
  EXPECT_EQ(topk_correct(logits, labels, 5), 2);
  const std::vector<double> row = softmax_row(Tensor::from_vector<float>({1, 2}, {1000, 1000}), 0);
  EXPECT_EQ(row, (std::vector<double>{0.5, 0.5}));
}

TEST(Ops, CastRoundsToNearest) {
  const Tensor x = Tensor::from_vector<double>({3}, {1 + 0x1p-12, 0.1, 70000});
  const Tensor half = cast(x, DType::f16), back = cast(half, DType::f64);
  EXPECT_EQ(back.to_vector<double>()[0], 1);
  EXPECT_EQ(back.to_vector<double>()[1], 0.0999755859375);
  EXPECT_TRUE(std::isinf(back.to_vector<double>()[2]));
  EXPECT_EQ(cast(Tensor::full({2}, 200, DType::u8), DType::f32).to_vector<float>(), Floats(2, 200.0F));
}

TEST(Ops, EvaluationRecordsNothing) {
  Tensor w = random_f32({3, 4}, 1);
  set_requires_grad(w);
  const NoGradGuard no_grad;
  EXPECT_FALSE(requires_grad(linear(random_f32({2, 4}, 2), w)));
}

/// A small network of every op, and the gradients of its parameters and pictures.
struct NetworkResult {
  double loss = 0;
  std::vector<Floats> gradients;
};

struct NetworkState {
  std::vector<Tensor> leaves;
  std::vector<Tensor> statistics;
};

constexpr size_t kWeightBeforeNorm = 2, kBiasBeforeNorm = 3, kShiftBeforeNorm = 10;

double largest(const Floats& values) {
  double found = 0;
  for (const float value : values) found = std::max(found, std::abs(double{value}));
  return found;
}

NetworkState make_network() {
  NetworkState net;
  net.leaves = {random_f32({4, 17, 17, 8}, 1),  // 0: pictures
                random_f32({16, 3, 3, 8}, 2),   // 1: stem
                random_f32({16, 3, 3, 8}, 3),   // 2: in two groups
                random_f32({16}, 4),            // 3: its bias
                random_f32({16, 1, 1, 16}, 5),  // 4: pointwise
                random_f32({10, 16 * 4}, 6),    // 5: classifier
                random_f32({10}, 7)};           // 6
  for (uint64_t i = 0; i < 3; ++i) {            // scale and shift of three norms from 7 on
    net.leaves.push_back(random_f32({16}, 10 + i, 0.5, 1.5));
    net.leaves.push_back(random_f32({16}, 20 + i));
    net.statistics.push_back(Tensor::full({16}, 0));
    net.statistics.push_back(Tensor::full({16}, 1));
  }
  return net;
}

Tensor forward(const NetworkState& net, bool training) {
  const auto& p = net.leaves;
  const auto state = [&](size_t i) {
    return BatchNormState{p[7 + 2 * i], p[8 + 2 * i], net.statistics[2 * i], net.statistics[2 * i + 1]};
  };
  const BatchNormOptions options{.training = training, .relu = true};
  Tensor h = conv2d(p[0], p[1], Tensor(), {.padding = 1});
  h = bn_relu_max_pool(h, state(0), options, {3, 2, 1});
  const Tensor grouped = conv2d(h, p[2], p[3], {.padding = 2, .dilation = 2, .groups = 2});
  const Tensor normed = batch_norm(grouped, state(1), {.training = training});
  h = batch_norm(conv2d(normed, p[4]), state(2), options, h);
  h = max_pool2d(add(relu(h), avg_pool2d(h, {3, 1, 1})), {2, 2, 0});
  h = avg_pool2d(dropout(h, {.probability = 0.1, .seed = 1}), {2, 2, 0});
  return linear(flatten(h), p[5], p[6]);
}

NetworkResult run_network(CpuPath path, bool training) {
  const PathGuard guard(path);
  NetworkState net = make_network();
  for (Tensor& leaf : net.leaves) set_requires_grad(leaf);
  const Tensor labels = Tensor::from_vector<int64_t>({4}, {0, 3, 9, 5});
  const Tensor loss = softmax_cross_entropy(forward(net, training), labels, {.label_smoothing = 0.1});
  backward(loss);
  NetworkResult result;
  result.loss = loss.item();
  for (const Tensor& leaf : net.leaves) result.gradients.push_back(grad_of(leaf).to_vector<float>());
  for (const Tensor& statistic : net.statistics) result.gradients.push_back(statistic.to_vector<float>());
  return result;
}

TEST(Paths, FastEqualsReferenceOnASmallNetwork) {
  for (const bool training : {true, false}) {
    const NetworkResult fast = run_network(CpuPath::fast, training),
                        reference = run_network(CpuPath::reference, training);
    // Errors of all layers add up: as one long sum.
    const double tol = tolerance<float>(4 * 17 * 17 * 16, OpClass::winograd);
    ExpectClose(std::vector<double>{fast.loss}, std::vector<double>{reference.loss}, tol, "loss");
    ASSERT_EQ(fast.gradients.size(), reference.gradients.size());
    for (size_t i = 0; i < fast.gradients.size(); ++i) {
      // A shift before a norm in training has no effect: its gradient is what rounding leaves of that of the weights.
      const bool zero = training && (i == kBiasBeforeNorm || i == kShiftBeforeNorm);
      const double scale = zero ? largest(reference.gradients[kWeightBeforeNorm]) : 0;
      ExpectClose(fast.gradients[i], reference.gradients[i], tol,
                  (training ? "training, tensor " : "evaluation, tensor ") + std::to_string(i), scale);
    }
  }
}

TEST(Paths, BothAreTheSameFromRunToRun) {
  for (const CpuPath path : {CpuPath::fast, CpuPath::reference}) {
    const NetworkResult one = run_network(path, true), two = run_network(path, true);
    EXPECT_EQ(one.loss, two.loss);
    for (size_t i = 0; i < one.gradients.size(); ++i) ExpectSameBits(one.gradients[i], two.gradients[i]);
  }
}

TEST(Paths, FusedOpsEqualTheirParts) {
  const Tensor x = random_f32({3, 9, 9, 16}, 1, -2, 2), residual = random_f32({3, 9, 9, 16}, 2);
  const auto state = [] {
    return BatchNormState{random_f32({16}, 3, 0.5, 1.5), random_f32({16}, 4), Tensor::full({16}, 0),
                          Tensor::full({16}, 1)};
  };
  const double tol = tolerance<float>(3 * 81, OpClass::reduction);
  for (const CpuPath path : {CpuPath::fast, CpuPath::reference}) {
    const PathGuard guard(path);
    for (const bool training : {true, false}) {
      const Tensor plain = batch_norm(x, state(), {.training = training});
      ExpectClose(batch_norm(x, state(), {.training = training, .relu = true}, residual).to_vector<float>(),
                  relu(add(plain, residual)).to_vector<float>(), tol, "relu and residual");
      ExpectClose(bn_relu_max_pool(x, state(), {.training = training, .relu = true}, {3, 2, 1}).to_vector<float>(),
                  max_pool2d(relu(plain), {3, 2, 1}).to_vector<float>(), tol, "relu and pool");
    }
  }
}

}  // namespace
}  // namespace engine::testing
