#include "engine/autograd/checkpoint.h"

#include <gtest/gtest.h>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/ops/add.h"
#include "engine/ops/dropout.h"
#include "engine/ops/linear.h"
#include "engine/ops/relu.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"

namespace engine::testing {
namespace {

constexpr int64_t kRows = 32, kWidth = 16;

Tensor random_leaf(const Shape& shape, uint64_t key) {
  Tensor leaf = Tensor::from_vector(shape, uniform<float>(shape.numel(), key));
  set_requires_grad(leaf);
  return leaf;
}

Tensor upstream() { return Tensor::from_vector({kRows, kWidth}, uniform<float>(kRows * kWidth, 77)); }
std::vector<float> grad(const Tensor& leaf) { return grad_of(leaf).to_vector<float>(); }
int64_t live_activations() { return memory_stats().live[static_cast<size_t>(MemoryCategory::activations)]; }

/// Layers relu(h w^T) with a shortcut around each pair, x with a gradient.
struct Network {
  Tensor x = random_leaf({kRows, kWidth}, 1);
  std::vector<Tensor> weights;
  int calls = 0;

  explicit Network(int layers = 4) {
    for (int i = 0; i < layers; ++i) weights.push_back(random_leaf({kWidth, kWidth}, static_cast<uint64_t>(10 + i)));
  }
  Tensor pair(size_t first, const Tensor& h) {
    ++calls;
    return add(relu(linear(relu(linear(h, weights[first])), weights[first + 1])), h);
  }
  Tensor plain() { return pair(2, pair(0, x)); }
  Tensor segmented() {
    Tensor h = x;
    for (size_t first = 0; first < weights.size(); first += 2) {
      h = checkpoint([this, first](const Tensor& input) { return pair(first, input); }, h);
    }
    return h;
  }
  std::vector<std::vector<float>> gradients() const {
    std::vector<std::vector<float>> all{grad(x)};
    for (const Tensor& weight : weights) all.push_back(grad(weight));
    return all;
  }
};

TEST(Checkpoint, GradientsAreBitEqual) {
  Network with, without;
  const Tensor y = with.segmented(), truth = without.plain();
  EXPECT_EQ(y.to_vector<float>(), truth.to_vector<float>());
  backward(y, upstream());
  backward(truth, upstream());
  EXPECT_EQ(with.gradients(), without.gradients());
  EXPECT_EQ(with.calls, 4);
  EXPECT_EQ(without.calls, 2);
}

TEST(Checkpoint, NestedIsBitEqual) {
  Network with, without;
  const Tensor y = checkpoint([&](const Tensor&) { return with.segmented(); }, with.x);
  backward(y, upstream());
  backward(without.plain(), upstream());
  // x is read through the closure, too: as a leaf that the inputs do not name.
  EXPECT_EQ(with.gradients(), without.gradients());
  EXPECT_EQ(with.calls, 6);  // forward, the outer one's second call, the inner ones' second calls
}

TEST(Checkpoint, ManyInputsAndResults) {
  for (const bool use_second : {true, false}) {
    SCOPED_TRACE(use_second ? "both results used" : "one result used");
    const Tensor a = random_leaf({kRows, kWidth}, 1), b = random_leaf({kRows, kWidth}, 2);
    const Tensor weight = random_leaf({kWidth, kWidth}, 3);
    const auto part = [&](const std::vector<Tensor>& in) {
      EXPECT_FALSE(in[2].defined());
      return std::vector<Tensor>{relu(add(linear(in[0], weight), in[1])), linear(in[1], weight), in[0]};
    };
    const auto result = [&](const std::vector<Tensor>& out) {
      return add(use_second ? add(out[0], relu(out[1])) : out[0], out[2]);
    };
    backward(result(part({a, b, Tensor()})), upstream());
    const std::vector<std::vector<float>> truth{grad(a), grad(b), grad(weight)};
    for (const Tensor& leaf : {a, b, weight}) clear_grad(leaf);
    backward(result(checkpoint(part, {a, b, Tensor()})), upstream());
    EXPECT_EQ((std::vector<std::vector<float>>{grad(a), grad(b), grad(weight)}), truth);
  }
}

TEST(Checkpoint, InputsWithoutGradientStayWithout) {
  Network network(2);
  const Tensor plain = Tensor::full({kRows, kWidth}, 0.5);
  backward(checkpoint([&](const Tensor& h) { return network.pair(0, h); }, plain), upstream());
  EXPECT_FALSE(requires_grad(plain));
  EXPECT_TRUE(grad_of(network.weights[0]).defined());
}

TEST(Checkpoint, KeepsInputsAlone) {
  Network network(8);
  const int64_t before = live_activations();
  Tensor y = network.segmented();
  const int64_t kept = live_activations() - before, one = kRows * kWidth * static_cast<int64_t>(sizeof(float));
  EXPECT_EQ(kept, 4 * one);  // the three between the segments and the result
  backward(y, upstream());
  y = Tensor();
}

TEST(Checkpoint, RecordsNothingWhereNothingIsWanted) {
  Network network;
  {
    const NoGradGuard no_grad;
    EXPECT_FALSE(requires_grad(network.segmented()));
  }
  const Tensor plain = Tensor::full({kRows, kWidth}, 0.5);
  EXPECT_FALSE(requires_grad(checkpoint([](const Tensor& h) { return relu(h); }, plain)));
  EXPECT_FALSE(recomputing());
}

/// A weight inside, outside before and outside behind: its hook waits for the last use, and runs once.
TEST(Checkpoint, HooksWaitForUsesOutside) {
  const Tensor shared = random_leaf({kWidth, kWidth}, 3), inner = random_leaf({kWidth, kWidth}, 4);
  const Tensor x = Tensor::from_vector({kRows, kWidth}, uniform<float>(kRows * kWidth, 5));
  std::vector<std::string> order;
  std::vector<float> at_hook;
  add_ready_hook(shared, [&] {
    order.push_back("shared");
    at_hook = grad(shared);
  });
  add_ready_hook(inner, [&] { order.push_back("inner"); });
  const auto middle = [&](const Tensor& h) { return relu(linear(relu(linear(h, inner)), shared)); };
  backward(linear(checkpoint(middle, linear(x, shared)), shared), upstream());
  EXPECT_EQ(order, (std::vector<std::string>{"inner", "shared"}));
  EXPECT_EQ(at_hook, grad(shared));
  const std::vector<float> found = grad(shared);
  clear_grad(shared);
  backward(linear(middle(linear(x, shared)), shared), upstream());
  EXPECT_EQ(found, grad(shared));
}

/// Where all uses are inside, the hook runs while the segment's earlier layers are still to come.
TEST(Checkpoint, HooksRunAsEachGradientIsComplete) {
  Network network(2);
  std::vector<int> order;
  for (const int i : {0, 1}) {
    add_ready_hook(network.weights[static_cast<size_t>(i)], [&network, &order, i] {
      order.push_back(i);
      if (i == 1) {
        EXPECT_FALSE(grad_of(network.weights[0]).defined());
      }
    });
  }
  backward(network.segmented(), upstream());
  EXPECT_EQ(order, (std::vector<int>{1, 0}));
}

TEST(Checkpoint, RandomnessIsReplayed) {
  const Tensor x = random_leaf({kRows, kWidth}, 1);
  const auto part = [](const Tensor& h) { return dropout(relu(h), {.probability = 0.5, .seed = 3, .offset = 9}); };
  backward(part(x), upstream());
  const std::vector<float> truth = grad(x);
  clear_grad(x);
  backward(checkpoint(part, x), upstream());
  EXPECT_EQ(grad(x), truth);
}

TEST(Checkpoint, TellsTheSecondCallFromTheFirst) {
  const Tensor x = random_leaf({kRows, kWidth}, 1);
  std::vector<bool> again;
  backward(checkpoint(
               [&](const Tensor& h) {
                 again.push_back(recomputing());
                 return relu(h);
               },
               x),
           upstream());
  EXPECT_EQ(again, (std::vector<bool>{false, true}));
  EXPECT_FALSE(recomputing());
}

TEST(Checkpoint, AnotherResultTheSecondTimeIsAnError) {
  const Tensor x = random_leaf({kRows, kWidth}, 1);
  const Tensor y = checkpoint(
      [](const std::vector<Tensor>& in) {
        std::vector<Tensor> out{relu(in[0])};
        if (recomputing()) out.push_back(out[0]);
        return out;
      },
      {x})[0];
  ExpectError<Error>([&] { backward(y, upstream()); }, {"[checkpoint] backward", "other results"});
  EXPECT_FALSE(recomputing());
}

}  // namespace
}  // namespace engine::testing
