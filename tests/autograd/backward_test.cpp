#include "engine/autograd/backward.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/autograd/accumulate.h"
#include "engine/autograd/node.h"
#include "engine/ops/add.h"
#include "engine/ops/linear.h"
#include "engine/ops/relu.h"
#include "engine/ops/view.h"
#include "tests/support/errors.h"
#include "tests/support/gradcheck.h"

namespace engine::testing {
namespace {

using Floats = std::vector<float>;

Tensor leaf_of(const Floats& values) {
  Tensor leaf = Tensor::from_vector({static_cast<int64_t>(values.size())}, values);
  set_requires_grad(leaf);
  return leaf;
}

Tensor ones(const Shape& shape) { return Tensor::full(shape, 1); }
Floats grad(const Tensor& leaf) { return grad_of(leaf).to_vector<float>(); }

/// y = factor * x, made of the tape's own parts.
Tensor scaled(const Tensor& x, float factor) {
  Tensor y = x.clone();
  for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] *= factor;
  if (!should_record({&x})) return y;
  record("scaled", {&x}, {&y}, [factor](Gradients& gradients) {
    Tensor grad_x = gradients.target(0, gradients.output(0).shape(), DType::f32);
    for (int64_t i = 0; i < grad_x.numel(); ++i) {
      grad_x.data<float>()[i] = factor * gradients.output(0).data<float>()[i];
    }
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

/// Two results of one operation: 2 x and 3 x.
std::pair<Tensor, Tensor> twice_and_thrice(const Tensor& x, std::vector<bool>* arrived = nullptr) {
  Tensor a = scaled(x.detach(), 2), b = scaled(x.detach(), 3);
  record("twice_and_thrice", {&x}, {&a, &b}, [arrived](Gradients& gradients) {
    Tensor grad_x;
    for (const int i : {0, 1}) {
      const Tensor& grad_y = gradients.output(i);
      if (arrived != nullptr) arrived->push_back(grad_y.defined());
      if (!grad_y.defined()) continue;
      const Tensor part = scaled(grad_y, static_cast<float>(2 + i));
      grad_x = grad_x.defined() ? accumulated(grad_x, part) : part;
    }
    gradients.set(0, grad_x);
  });
  return {a, b};
}

TEST(Backward, UsesOfATensorAddUp) {
  const Tensor x = leaf_of({1, 2});
  const Tensor shared = scaled(x, 2);
  backward(add(add(scaled(shared, 5), shared), add(shared, x)), ones({2}));
  EXPECT_EQ(grad(x), (Floats{15, 15}));
}

TEST(Backward, OneTensorInBothPlaces) {
  const Tensor x = leaf_of({1, 2});
  backward(add(x, x), ones({2}));
  EXPECT_EQ(grad(x), (Floats{2, 2}));
}

TEST(Backward, ManyResultsOfOneOperation) {
  std::vector<bool> arrived;
  const Tensor x = leaf_of({1, 2});
  auto [a, b] = twice_and_thrice(x, &arrived);
  backward(add(scaled(a, 10), b), ones({2}));
  EXPECT_EQ(grad(x), (Floats{23, 23}));
  EXPECT_EQ(arrived, (std::vector<bool>{true, true}));
}

TEST(Backward, ResultsThatNobodyUsedHaveNoGradient) {
  std::vector<bool> arrived;
  const Tensor x = leaf_of({1, 2});
  auto [a, b] = twice_and_thrice(x, &arrived);
  backward(scaled(b, 1), ones({2}));
  EXPECT_EQ(grad(x), (Floats{3, 3}));
  EXPECT_EQ(arrived, (std::vector<bool>{false, true}));
}

TEST(Backward, ScalarRootsStartAtOne) {
  const Tensor x = leaf_of({3});
  backward(scaled(x, 4));
  EXPECT_EQ(grad(x), Floats{4});
}

TEST(Backward, OnlyLeavesThatWantItGetAGradient) {
  const Tensor x = leaf_of({1, 2}), plain = Tensor::full({2}, 5);
  backward(add(scaled(x, 2), plain), ones({2}));
  EXPECT_EQ(grad(x), (Floats{2, 2}));
  EXPECT_FALSE(requires_grad(plain));
  Tensor off = leaf_of({1});
  set_requires_grad(off, false);
  EXPECT_FALSE(requires_grad(scaled(off, 2)));
}

TEST(Backward, NoGradRecordsNothing) {
  const Tensor x = leaf_of({1, 2});
  Tensor inside;
  {
    const NoGradGuard outer;
    { const NoGradGuard inner; }
    EXPECT_FALSE(grad_enabled());
    inside = scaled(x, 2);
    // Recording is each thread's own choice.
    bool elsewhere = false;
    std::thread([&] { elsewhere = grad_enabled(); }).join();
    EXPECT_TRUE(elsewhere);
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_FALSE(requires_grad(inside));
  backward(add(scaled(x, 3), inside), ones({2}));
  EXPECT_EQ(grad(x), (Floats{3, 3}));
}

TEST(Backward, DetachedTensorsEndTheGraph) {
  const Tensor x = leaf_of({1, 2}), y = scaled(x, 2);
  EXPECT_FALSE(requires_grad(y.detach()));
  EXPECT_FALSE(requires_grad(y.view({2, 1})));  // the differentiable forms are in ops/view.h
  backward(add(scaled(y.detach(), 7), y), ones({2}));
  EXPECT_EQ(grad(x), (Floats{2, 2}));
}

TEST(Backward, AGraphCanBeUsedOnce) {
  const Tensor x = leaf_of({1, 2}), y = scaled(x, 2);
  backward(y, ones({2}));
  ExpectError<Error>([&] { backward(y, ones({2})); }, {"[scaled] backward", "used already"});
  // Also where only a part of it was used.
  const Tensor shared = scaled(x, 2), a = relu(shared), b = scaled(shared, 3);
  backward(a, ones({2}));
  ExpectError<Error>([&] { backward(b, ones({2})); }, {"[scaled] backward", "used already"});
}

TEST(Backward, GradientsOfTwoPassesAddUpUntilCleared) {
  const Tensor x = leaf_of({1, 2});
  EXPECT_FALSE(grad_of(x).defined());
  backward(scaled(x, 2), ones({2}));
  backward(scaled(x, 3), ones({2}));
  EXPECT_EQ(grad(x), (Floats{5, 5}));
  clear_grad(x);
  EXPECT_FALSE(grad_of(x).defined());
  backward(scaled(x, 7), ones({2}));
  EXPECT_EQ(grad(x), (Floats{7, 7}));
}

TEST(Backward, TheUpstreamGradientIsTheCallers) {
  const Tensor x = leaf_of({1, 2}), upstream = Tensor::from_vector<float>({2}, {1, -1});
  backward(relu(relu(x)), upstream);
  EXPECT_EQ(upstream.to_vector<float>(), (Floats{1, -1}));
  EXPECT_EQ(grad(x), (Floats{1, -1}));
  // Nor is it what the leaf holds afterwards.
  const Tensor y = leaf_of({1, 2});
  backward(add(y, Tensor::zeros({2})), upstream);
  upstream.fill(9);
  EXPECT_EQ(grad(y), (Floats{1, -1}));
}

TEST(Backward, MemoryOfALeafIsWrittenInPlace) {
  const Tensor flat = Tensor::full({6}, -7);
  Tensor x = leaf_of({1, 2});
  set_grad_memory(x, flat.narrow(0, 2, 2));
  EXPECT_FALSE(grad_of(x).defined());
  backward(scaled(x, 2), ones({2}));
  EXPECT_EQ(flat.to_vector<float>(), (Floats{-7, -7, 2, 2, -7, -7}));
  EXPECT_TRUE(grad_of(x).shares_memory_with(flat));
  backward(scaled(x, 3), ones({2}));
  EXPECT_EQ(flat.to_vector<float>(), (Floats{-7, -7, 5, 5, -7, -7}));
  clear_grad(x);
  backward(add(x, x), ones({2}));  // an op that does not know where to write
  EXPECT_EQ(flat.to_vector<float>(), (Floats{-7, -7, 2, 2, -7, -7}));
}

TEST(Backward, MemoryOfALeafNeedsNoCopy) {
  const int64_t size = 512;
  Tensor w = Tensor::full({size, size}, 0.5);
  set_requires_grad(w);
  const Tensor memory = Tensor::zeros({size, size}, DType::f32, MemoryCategory::gradients);
  set_grad_memory(w, memory);
  const Tensor y = linear(Tensor::full({1, size}, 1), w), upstream = Tensor::full({1, size}, 1);
  reset_memory_peaks();
  const int64_t before = memory_stats().peak_total;
  backward(y, upstream);
  EXPECT_LT(memory_stats().peak_total - before, memory.bytes());
  EXPECT_EQ(memory.to_vector<float>(), Floats(static_cast<size_t>(size * size), 1.0F));
}

TEST(Backward, ALeafTwiceInOneOperationHasOneMemory) {
  // [[1, 2], [3, 4]] squared: the gradient of the sum is w^T 1 + 1 w^T.
  Tensor w = Tensor::from_vector<float>({2, 2}, {1, 2, 3, 4});
  set_requires_grad(w);
  set_grad_memory(w, Tensor::zeros({2, 2}));
  const Floats expected = {3 + 4, 7 + 4, 3 + 6, 7 + 6};
  for (int step = 0; step < 2; ++step) {
    clear_grad(w);
    backward(matmul(w, w), ones({2, 2}));
    EXPECT_EQ(grad(w), expected);
  }
}

TEST(Backward, MisuseIsNamed) {
  Tensor x = leaf_of({1, 2}), plain = Tensor::full({2}, 1), whole = Tensor::full({2}, 1, DType::i64), undefined;
  Tensor y = scaled(x, 2);
  ExpectError<Error>([&] { backward(plain); }, {"[backward] root"});
  ExpectError<Error>([&] { backward(x); }, {"[backward] root"});
  ExpectError<Error>([&] { backward(y); }, {"[backward] root", "got [2]", "expected one element"});
  ExpectError<Error>([&] { backward(y, ones({3})); }, {"[backward] grad_root", "got [3]", "expected [2]"});
  ExpectError<Error>([&] { set_requires_grad(whole); }, {"[autograd] requires_grad", "floats"});
  ExpectError<Error>([&] { set_requires_grad(undefined); }, {"[autograd] requires_grad"});
  ExpectError<Error>([&] { set_requires_grad(y); }, {"[autograd] requires_grad", "expected a leaf"});
  ExpectError<Error>([&] { grad_of(y); }, {"[autograd] grad_of", "leaf"});
  ExpectError<Error>([&] { grad_of(plain); }, {"[autograd] grad_of", "leaf"});
  ExpectError<Error>([&] { clear_grad(y); }, {"[autograd] clear_grad"});
  ExpectError<Error>([&] { add_ready_hook(plain, [] {}); }, {"[autograd] add_ready_hook"});
  ExpectError<Error>([&] { set_grad_memory(x, Tensor::zeros({3})); }, {"set_grad_memory", "got [3]", "expected [2]"});
  EXPECT_THROW(set_grad_memory(x, Tensor::zeros({2}, DType::f64)), Error);
  ExpectError<Error>([&] { accumulate(plain, ones({3})); }, {"[autograd] accumulate", "[3]", "[2]"});
}

TEST(Accumulate, ReusesMemoryThatNobodyElseHas) {
  Tensor first = ones({2});
  const char* memory = first.raw();
  const Tensor sum = accumulated(std::move(first), ones({2}));
  EXPECT_EQ(sum.raw(), memory);
  EXPECT_EQ(sum.to_vector<float>(), (Floats{2, 2}));
  const Tensor held = ones({2}), other = accumulated(held, ones({2}));
  EXPECT_FALSE(other.shares_memory_with(held));
  EXPECT_EQ(held.to_vector<float>(), (Floats{1, 1}));
  const Tensor turned = Tensor::from_vector<float>({2, 2}, {1, 2, 3, 4}).transpose(0, 1);
  EXPECT_EQ(accumulated(turned, turned).to_vector<float>(), (Floats{2, 6, 4, 8}));
}

}  // namespace
}  // namespace engine::testing
