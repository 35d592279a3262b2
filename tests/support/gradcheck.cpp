#include "tests/support/gradcheck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/core/random.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using Doubles = std::vector<double>;

double weighted_sum(const Tensor& y, const Doubles& weights) {
  const Tensor values = y.contiguous();
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i] * (y.dtype() == DType::f64 ? values.data<double>()[i] : double{values.data<float>()[i]});
  }
  return sum;
}

class Check {
 public:
  Check(std::string name, const std::vector<Tensor>& inputs, const TensorFunction& f, const GradCheckOptions& options)
      : name_(std::move(name)), inputs_(inputs), f_(f) {
    const NoGradGuard no_grad;
    const Tensor y = f(inputs);
    weights_ = random_f64(y.shape(), 1000, 0.25, 1).to_vector<double>();
    for (size_t i = 0; i < weights_.size(); i += 3) weights_[i] = -weights_[i];
    for (size_t i = 0; i < inputs.size(); ++i) numeric_.push_back(differences(i, options.step));
  }

  /// Runs backward() where the inputs of `wanted` want gradients.
  void run(const std::vector<size_t>& wanted, bool own_memory) const {
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs_) leaves.push_back(input.clone());
    for (const size_t i : wanted) set_requires_grad(leaves[i]);
    if (own_memory) {
      for (const size_t i : wanted) set_grad_memory(leaves[i], Tensor::full(leaves[i].shape(), kUnwritten, DType::f64));
    }
    for (int pass = 1; pass <= 2; ++pass) {
      run_once(leaves);
      for (const size_t i : wanted) expect_gradient(leaves[i], i, pass);
    }
    for (const size_t i : wanted) clear_grad(leaves[i]);
    run_once(leaves);
    for (const size_t i : wanted) expect_gradient(leaves[i], i, 1);
    for (size_t i = 0; i < leaves.size(); ++i) {
      ExpectSameBits(leaves[i].to_vector<double>(), inputs_[i].to_vector<double>(), name_.c_str());
    }
  }

 private:
  static constexpr double kUnwritten = std::numeric_limits<double>::quiet_NaN();

  Doubles differences(size_t input, double step) const {
    const double h = step > 0 ? step : std::cbrt(std::numeric_limits<double>::epsilon());
    std::vector<Tensor> moved = inputs_;
    moved[input] = inputs_[input].clone();
    double* values = moved[input].data<double>();
    Doubles gradient;
    for (int64_t i = 0; i < moved[input].numel(); ++i) {
      const double value = values[i];
      values[i] = value + h;
      const double above = weighted_sum(f_(moved), weights_);
      values[i] = value - h;
      const double below = weighted_sum(f_(moved), weights_);
      values[i] = value;
      gradient.push_back((above - below) / (2 * h));
    }
    return gradient;
  }

  void run_once(const std::vector<Tensor>& leaves) const {
    const Tensor y = f_(leaves);
    ASSERT_TRUE(requires_grad(y)) << name_;
    Tensor upstream = Tensor::from_vector(y.shape(), weights_);
    if (y.dtype() == DType::f32) {
      upstream = Tensor::from_vector(y.shape(), std::vector<float>(weights_.begin(), weights_.end()));
    }
    const Tensor before = upstream.clone();
    backward(y, upstream);
    EXPECT_EQ(weighted_sum(upstream, weights_), weighted_sum(before, weights_)) << name_ << ": upstream was changed";
  }

  void expect_gradient(const Tensor& leaf, size_t input, double times) const {
    Doubles expected = numeric_[input];
    for (double& value : expected) value *= times;
    const Tensor gradient = grad_of(leaf);
    ASSERT_TRUE(gradient.defined()) << name_ << " input " << input;
    ASSERT_EQ(gradient.shape(), leaf.shape()) << name_ << " input " << input;
    ExpectClose(gradient.to_vector<double>(), expected, tolerance<double>(1, OpClass::finite_difference),
                name_ + " input " + std::to_string(input));
  }

  std::string name_;
  const std::vector<Tensor>& inputs_;
  const TensorFunction& f_;
  Doubles weights_;
  std::vector<Doubles> numeric_;
};

}  // namespace

void ExpectGradients(const std::string& op, const std::string& what, const std::vector<Tensor>& inputs,
                     const TensorFunction& f, const GradCheckOptions& options) {
  const auto live = [] { return memory_stats().live_total; };
  const int64_t before = live();
  {
    const Check check(op + " " + what, inputs, f, options);
    std::vector<size_t> all(inputs.size());
    std::iota(all.begin(), all.end(), size_t{0});
    check.run(all, false);
    check.run(all, true);
    for (const size_t one : all) check.run({one}, true);
  }
  EXPECT_EQ(live(), before) << op << " " << what << " left memory behind";
}

Tensor random_f64(const Shape& shape, uint64_t key, double low, double high) {
  return Tensor::from_vector(shape, uniform<double>(shape.numel(), key, low, high));
}

Tensor spaced_f64(const Shape& shape, uint64_t key) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  const auto count = static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = (2 * static_cast<double>(i) + 1) / count - 1;
  RandomStream random(key, RandomPurpose::shuffle);
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
  return Tensor::from_vector(shape, values);
}

}  // namespace engine::testing
