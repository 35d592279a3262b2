// What the tape keeps, for how long, and when leaves hear that their gradient is there.

#include <gtest/gtest.h>

#include <memory>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/core/random.h"
#include "engine/ops/add.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/linear.h"
#include "engine/ops/pool2d.h"
#include "engine/ops/relu.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/view.h"
#include "tests/support/gradcheck.h"
#include "tests/support/numeric.h"

namespace engine::testing {
namespace {

int64_t live_activations() { return memory_stats().live[static_cast<size_t>(MemoryCategory::activations)]; }

Tensor random_leaf(const Shape& shape, uint64_t key) {
  Tensor leaf = Tensor::from_vector(shape, uniform<float>(shape.numel(), key));
  set_requires_grad(leaf);
  return leaf;
}

/// y = x w^T for each of some square weights in turn.
struct Chain {
  std::vector<Tensor> weights;
  Tensor input = Tensor::full({kRows, kWidth}, 0.5);

  explicit Chain(int layers) {
    for (int i = 0; i < layers; ++i) weights.push_back(random_leaf({kWidth, kWidth}, static_cast<uint64_t>(i)));
  }
  Tensor forward() const {
    Tensor h = input;
    for (const Tensor& weight : weights) h = relu(linear(h, weight));
    return h;
  }
  Tensor upstream() const { return Tensor::full({kRows, kWidth}, 1); }

  static constexpr int64_t kRows = 64, kWidth = 8;
};

TEST(ReadyHooks, RunOnceAPassInReverseOrder) {
  const Chain chain(5);
  std::vector<int> order;
  for (int i = 0; i < 5; ++i)
    add_ready_hook(chain.weights[static_cast<size_t>(i)], [&order, i] { order.push_back(i); });
  for (int pass = 0; pass < 3; ++pass) {
    order.clear();
    backward(chain.forward(), chain.upstream());
    EXPECT_EQ(order, (std::vector<int>{4, 3, 2, 1, 0}));
  }
}

TEST(ReadyHooks, RunAfterTheLastUse) {
  const Chain chain(1);
  const Tensor& shared = chain.weights[0];
  const Tensor between = random_leaf({Chain::kWidth, Chain::kWidth}, 9);
  std::vector<std::string> order;
  std::vector<float> seen;
  add_ready_hook(between, [&] { order.push_back("between"); });
  add_ready_hook(shared, [&] {
    order.push_back("shared");
    seen = grad_of(shared).to_vector<float>();
  });
  backward(linear(linear(linear(chain.input, shared), between), shared), chain.upstream());
  EXPECT_EQ(order, (std::vector<std::string>{"between", "shared"}));
  ExpectSameBits(seen, grad_of(shared).to_vector<float>(), "the gradient at the time of the hook");
}

TEST(ReadyHooks, RunWhileEarlierLayersStillCompute) {
  const Chain chain(3);
  std::vector<bool> first_done;
  for (size_t i : {1u, 2u}) {
    add_ready_hook(chain.weights[i], [&] { first_done.push_back(grad_of(chain.weights[0]).defined()); });
  }
  backward(chain.forward(), chain.upstream());
  EXPECT_EQ(first_done, (std::vector<bool>{false, false}));
}

TEST(ReadyHooks, EachOfALeafRuns) {
  const Chain chain(1);
  int calls = 0;
  for (int i = 0; i < 2; ++i) add_ready_hook(chain.weights[0], [&] { ++calls; });
  // A leaf that is both inputs of one operation is done once.
  backward(add(chain.weights[0], chain.weights[0]), Tensor::full({Chain::kWidth, Chain::kWidth}, 1));
  EXPECT_EQ(calls, 2);
}

TEST(Lifetime, SavedTensorsGoDuringBackward) {
  const Chain chain(8);
  std::vector<int64_t> live;
  for (const Tensor& weight : chain.weights) add_ready_hook(weight, [&] { live.push_back(live_activations()); });
  const int64_t before = live_activations();
  {
    const Tensor upstream = chain.upstream();
    backward(chain.forward(), upstream);
  }
  ASSERT_EQ(live.size(), 8u);
  const int64_t activation = Chain::kRows * Chain::kWidth * 4;
  // From one layer to the next, at least one saved activation goes (the weight's gradient is smaller and comes).
  for (size_t i = 1; i < live.size(); ++i) EXPECT_LE(live[i], live[i - 1] - activation / 2) << i;
  // What is left are the gradients, until they are let go.
  const int64_t gradients = 8 * Chain::kWidth * Chain::kWidth * 4;
  EXPECT_EQ(live_activations() - before, gradients);
}

TEST(Lifetime, NothingStaysBehindABackwardPass) {
  const int64_t before = memory_stats().live_total;
  {
    Tensor filter = random_leaf({4, 3, 3, 2}, 1), head = random_leaf({3, 4}, 2), scale = random_leaf({4}, 3),
           shift = random_leaf({4}, 4);
    const BatchNormState state{scale, shift, Tensor::full({4}, 0), Tensor::full({4}, 1)};
    const Tensor x = Tensor::full({2, 8, 8, 2}, 0.5), labels = Tensor::from_vector<int64_t>({2}, {0, 2});
    for (Tensor* leaf : {&filter, &head, &scale, &shift}) {
      set_grad_memory(*leaf, Tensor::zeros(leaf->shape(), DType::f32, MemoryCategory::gradients));
    }
    const int64_t held = memory_stats().live_total;
    for (int step = 0; step < 3; ++step) {
      const Tensor h = conv2d(x, filter, Tensor(), {.padding = 1});
      const Tensor y = max_pool2d(batch_norm(h, state, {.relu = true}, h), {2, 2, 0});
      backward(softmax_cross_entropy(linear(flatten(global_avg_pool(y)), head), labels));
    }
    EXPECT_EQ(memory_stats().live_total, held);
  }
  EXPECT_EQ(memory_stats().live_total, before);
}

TEST(Lifetime, GraphsThatAreNeverUsedGo) {
  const Chain chain(6);
  const int64_t before = memory_stats().live_total;
  for (int i = 0; i < 3; ++i) {
    const Tensor y = chain.forward(), branch = add(y, y);
    EXPECT_GT(memory_stats().live_total, before);
  }
  EXPECT_EQ(memory_stats().live_total, before);
}

TEST(Lifetime, GraphsOfFailedPassesGo) {
  const Chain chain(3);
  const int64_t before = memory_stats().live_total;
  {
    const Tensor y = chain.forward();
    Tensor z = y.clone();
    record("failing", {&y}, {&z}, [](Gradients&) { throw std::runtime_error("no"); });
    EXPECT_THROW(backward(z, chain.upstream()), std::runtime_error);
  }
  EXPECT_EQ(memory_stats().live_total, before);
  EXPECT_TRUE(grad_enabled());
}

TEST(Lifetime, EvaluationKeepsNothing) {
  const Chain chain(8);
  const NoGradGuard no_grad;
  const int64_t before = live_activations();
  reset_memory_peaks();
  chain.forward();
  const int64_t peak = memory_stats().peak[static_cast<size_t>(MemoryCategory::activations)];
  EXPECT_LE(peak - before, 3 * Chain::kRows * Chain::kWidth * 4);
}

/// A random graph over three leaves: sums, products, rectifiers and norms that share inputs in every way.
Tensor random_graph(uint64_t seed, const std::vector<Tensor>& leaves) {
  RandomStream random(seed, RandomPurpose::synthetic);
  std::vector<Tensor> values = leaves;
  const auto pick = [&] { return values[random.below(values.size())]; };
  const auto norm = [&](bool relu, const Tensor& residual) {
    const int64_t c = leaves[0].dim(1);
    const BatchNormState state{random_f64({c}, seed, 0.5, 1.5), random_f64({c}, seed + 1),
                               Tensor::full({c}, 0, DType::f64), Tensor::full({c}, 1, DType::f64)};
    return batch_norm(pick(), state, {.relu = relu}, residual);
  };
  for (int i = 0; i < 10; ++i) {
    switch (random.below(7)) {
      case 0:
        values.push_back(add(pick(), pick()));
        break;
      case 1:
        values.push_back(relu(pick()));
        break;
      case 2:
        values.push_back(matmul(pick(), pick()));
        break;
      case 3:
        values.push_back(linear(pick(), pick()));
        break;
      case 4:
        values.push_back(norm(false, Tensor()));
        break;
      case 5:
        values.push_back(norm(true, pick()));
        break;
      default:
        values.push_back(reshape(flatten(relu(pick())), leaves[0].shape()));
        break;
    }
    // Some intermediate results are let go, so that backward may write into their memory; others stay in use.
    if (values.size() > 6) values.erase(values.begin() + static_cast<std::ptrdiff_t>(3 + random.below(3)));
  }
  Tensor sum = leaves[0];
  for (size_t i = 1; i < values.size(); ++i) sum = add(sum, values[i]);
  return sum;
}

TEST(Lifetime, ReuseOfMemoryNeverShowsInRandomGraphs) {
  const Shape shape{3, 3};
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const std::vector<Tensor> leaves = {random_f64(shape, 3 * seed), random_f64(shape, 3 * seed + 1),
                                        random_f64(shape, 3 * seed + 2)};
    // Products of products bend strongly, so the step is short.
    ExpectGradients("random graph", std::to_string(seed), leaves,
                    [&](const std::vector<Tensor>& in) { return random_graph(seed, in); }, {.step = 0x1p-20});
  }
}

TEST(Lifetime, AGradientSharedByAnAddStaysWhole) {
  // Each rectifier would like to write into the one gradient that the sum hands to both.
  Tensor a = Tensor::from_vector<float>({2}, {1, -1}), b = Tensor::from_vector<float>({2}, {-1, 1});
  for (Tensor* leaf : {&a, &b}) set_requires_grad(*leaf);
  backward(add(relu(a), relu(b)), Tensor::from_vector<float>({2}, {5, 7}));
  EXPECT_EQ(grad_of(a).to_vector<float>(), (std::vector<float>{5, 0}));
  EXPECT_EQ(grad_of(b).to_vector<float>(), (std::vector<float>{0, 7}));
}

}  // namespace
}  // namespace engine::testing
