#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/common/parallel.h"
#include "tests/kernels/batch_norm_problem.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::BatchNormBackward;
using kernels::BatchNormForward;
using Problem = BatchNormProblem<float>;

void check_against_differences(const BatchNormCase& shape, bool training) {
  BatchNormProblem<double> p(shape);
  const auto forward = training ? kernels::batch_norm_forward_cpu<double> : kernels::batch_norm_inference_cpu<double>;
  const auto loss = [&] {
    BatchNormForward<double> args = p.forward();
    if (training) args.running_mean = args.running_var = nullptr;
    forward(args);
    return dot(p.y, p.grad_y);
  };
  loss();
  if (training) {
    kernels::batch_norm_backward_cpu(p.backward());
  } else {
    kernels::batch_norm_inference_backward_cpu(p.inference_backward());
  }
  const double tol = tolerance<double>(shape.rows, OpClass::finite_difference);
  const std::string what = shape.str() + (training ? " training " : " evaluation ");
  ExpectClose(p.grad_x, numeric_gradient(p.x, loss), tol, what + "x");
  ExpectClose(p.grad_gamma, numeric_gradient(p.gamma, loss), tol, what + "gamma");
  ExpectClose(p.grad_beta, numeric_gradient(p.beta, loss), tol, what + "beta");
  if (shape.residual) ExpectClose(p.grad_residual, numeric_gradient(p.residual, loss), tol, what + "residual");
}

TEST(BatchNormBackward, ReferenceAgreesWithFiniteDifferences) {
  for (const bool training : {true, false}) {
    for (const bool relu : {true, false}) {
      for (const bool residual : {true, false}) {
        check_against_differences({11, 3, relu, residual}, training);
        check_against_differences({2, 4, relu, residual}, training);
      }
    }
  }
}

void expect_same_gradients(const Problem& got, const BatchNormProblem<double>& want, const BatchNormCase& shape) {
  const double element = tolerance<float>(shape.rows, OpClass::reduction);
  const auto summands = static_cast<double>(shape.rows);
  // Of the summands g * gamma * invstd and its mean, which nearly cancel where rows are few.
  double scale = 0;
  for (size_t i = 0; i < got.gamma.size(); ++i) {
    scale = std::max(scale, std::abs(static_cast<double>(got.gamma[i]) * got.invstd[i]));
  }
  ExpectClose(got.grad_x, converted<float>(want.grad_x), element, shape.str() + " x", scale);
  ExpectClose(got.grad_residual, converted<float>(want.grad_residual), element, shape.str() + " residual");
  ExpectClose(got.grad_gamma, converted<float>(want.grad_gamma), element, shape.str() + " gamma", std::sqrt(summands));
  ExpectClose(got.grad_beta, converted<float>(want.grad_beta), element, shape.str() + " beta", std::sqrt(summands));
}

// The same saved tensors for both, so that a value near zero cannot fall on two sides of the mask.
BatchNormProblem<double> widened(const Problem& p, const BatchNormCase& shape) {
  BatchNormProblem<double> wide(shape);
  wide.x = converted<double>(p.x);
  wide.y = converted<double>(p.y);
  wide.gamma = converted<double>(p.gamma);
  wide.mean = converted<double>(p.mean);
  wide.invstd = converted<double>(p.invstd);
  wide.running_mean = converted<double>(p.running_mean);
  wide.running_var = converted<double>(p.running_var);
  wide.grad_y = converted<double>(p.grad_y);
  return wide;
}

TEST(BatchNormBackward, FastAgreesWithDoubleReference) {
  for (const BatchNormCase& shape : batch_norm_cases()) {
    Problem got(shape);
    kernels::batch_norm_forward_fast(got.forward());
    BatchNormProblem<double> want = widened(got, shape);
    kernels::batch_norm_backward_fast(got.backward());
    kernels::batch_norm_backward_cpu(want.backward());
    expect_same_gradients(got, want, shape);
  }
}

TEST(BatchNormBackward, FastEvaluationAgreesWithDoubleReference) {
  for (const BatchNormCase& shape : batch_norm_cases()) {
    Problem got(shape);
    kernels::batch_norm_inference_fast(got.forward());
    BatchNormProblem<double> want = widened(got, shape);
    kernels::batch_norm_inference_backward_fast(got.inference_backward());
    kernels::batch_norm_inference_backward_cpu(want.inference_backward());
    expect_same_gradients(got, want, shape);
  }
}

void expect_same_masks(const Problem& before) {
  Problem from_y = before;
  kernels::batch_norm_forward_fast(from_y.forward());
  Problem from_x = from_y;
  kernels::batch_norm_backward_fast(from_y.backward());
  BatchNormBackward<float> args = from_x.backward();
  args.y = nullptr;
  kernels::batch_norm_backward_fast(args);
  ExpectSameBits(from_x.grad_x, from_y.grad_x, "x");
  ExpectSameBits(from_x.grad_gamma, from_y.grad_gamma, "gamma");
}

TEST(BatchNormBackward, MaskFromXEqualsMaskFromY) {
  for (const BatchNormCase& shape : batch_norm_cases()) {
    if (shape.relu && !shape.residual) expect_same_masks(Problem(shape));
  }
}

// Many results are zero or a rounding away from it, where a mask from other roundings would differ.
TEST(BatchNormBackward, MaskFromXEqualsMaskFromYNearZero) {
  for (const int64_t channels : {1, 3, 64, 67}) {
    for (const float centre : {0.0F, 1.0F, 0.3F}) {
      Problem p({4000, channels, true, false});
      for (size_t i = 0; i < p.x.size(); ++i) p.x[i] = centre + std::round((p.x[i] - 1) * 4) / 4;
      p.beta.assign(p.beta.size(), 0);
      expect_same_masks(p);
      for (size_t i = 0; i < p.x.size(); ++i) p.x[i] = centre + (p.x[i] > centre ? 1e-3F : -1e-3F) * (i % 2 ? 1 : 0);
      expect_same_masks(p);
    }
  }
}

TEST(BatchNormBackward, GradientOfXMayBeLeftOut) {
  const BatchNormCase shape{64, 8, true, true};
  Problem with(shape);
  kernels::batch_norm_forward_fast(with.forward());
  Problem without = with;
  kernels::batch_norm_backward_fast(with.backward());
  BatchNormBackward<float> args = without.backward();
  args.grad_x = nullptr;
  kernels::batch_norm_backward_fast(args);
  ExpectSameBits(without.grad_gamma, with.grad_gamma);
  ExpectSameBits(without.grad_residual, with.grad_residual);
}

// Every pair that the contract allows; results must be those of separate memory, bit for bit.
struct Placement {
  const char* name;
  float* (*grad_x)(Problem&);
  float* (*grad_residual)(Problem&);
};

const Placement kPlacements[] = {
    {"x in x, residual in grad_y", [](Problem& p) { return p.x.data(); }, [](Problem& p) { return p.grad_y.data(); }},
    {"x in grad_y", [](Problem& p) { return p.grad_y.data(); }, [](Problem& p) { return p.grad_residual.data(); }},
    {"x in y", [](Problem& p) { return p.y.data(); }, [](Problem& p) { return p.grad_residual.data(); }},
    {"x in x, residual in y", [](Problem& p) { return p.x.data(); }, [](Problem& p) { return p.y.data(); }},
    {"x in grad_y, residual in y", [](Problem& p) { return p.grad_y.data(); }, [](Problem& p) { return p.y.data(); }},
    {"x in y, residual in grad_y", [](Problem& p) { return p.y.data(); }, [](Problem& p) { return p.grad_y.data(); }},
};

template <typename F>
void expect_placements(const BatchNormCase& shape, bool training, F&& backward) {
  Problem before(shape);
  (training ? kernels::batch_norm_forward_fast<float> : kernels::batch_norm_inference_fast<float>)(before.forward());
  const auto arguments = [&](Problem& p) { return training ? p.backward() : p.inference_backward(); };
  Problem apart = before;
  backward(arguments(apart));
  for (const Placement& placement : kPlacements) {
    Problem p = before;
    BatchNormBackward<float> args = arguments(p);
    args.grad_x = placement.grad_x(p);
    if (shape.residual) args.grad_residual = placement.grad_residual(p);
    backward(args);
    const std::string what = shape.str() + " " + placement.name;
    ExpectSameBits(std::vector<float>(args.grad_x, args.grad_x + apart.grad_x.size()), apart.grad_x, what.c_str());
    ExpectSameBits(p.grad_gamma, apart.grad_gamma, what.c_str());
    if (!shape.residual) continue;
    ExpectSameBits(std::vector<float>(args.grad_residual, args.grad_residual + apart.grad_x.size()),
                   apart.grad_residual, what.c_str());
  }
}

TEST(BatchNormBackward, ResultsMayShareMemoryAsTheContractSays) {
  for (const BatchNormCase& shape : batch_norm_cases()) {
    expect_placements(shape, true, kernels::batch_norm_backward_fast<float>);
    expect_placements(shape, false, kernels::batch_norm_inference_backward_fast<float>);
    if (shape.rows * shape.channels > 10000) continue;
    expect_placements(shape, true, kernels::batch_norm_backward_cpu<float>);
    expect_placements(shape, false, kernels::batch_norm_inference_backward_cpu<float>);
  }
}

// Aligned and large, which sends results past the cache unless they are in place.
TEST(BatchNormBackward, LargeTensorsGiveTheSameBitsInPlaceAndApart) {
  const BatchNormCase shape{33000, 64, true, false};
  Problem p(shape);
  std::vector<WorkspaceLine> apart(p.x.size() * sizeof(float) / sizeof(WorkspaceLine));
  float* result = reinterpret_cast<float*>(apart[0].bytes);
  BatchNormForward<float> forward = p.forward();
  forward.y = result;
  kernels::batch_norm_forward_fast(forward);
  kernels::batch_norm_forward_fast(p.forward());
  ExpectSameBits(std::vector<float>(result, result + p.y.size()), p.y, "y");
  BatchNormBackward<float> args = p.backward();
  args.grad_x = result;
  kernels::batch_norm_backward_fast(args);
  args.grad_x = p.x.data();
  kernels::batch_norm_backward_fast(args);
  ExpectSameBits(std::vector<float>(result, result + p.x.size()), p.x, "grad_x");
}

TEST(BatchNormBackward, GradientPassesWhereTheResultIsNan) {
  for (const bool from_y : {true, false}) {
    Problem p({40, 3, true, false});
    kernels::batch_norm_inference_fast(p.forward());
    p.x[30] = p.y[30] = std::numeric_limits<float>::quiet_NaN();
    BatchNormBackward<float> args = p.inference_backward();
    if (!from_y) args.y = nullptr;
    kernels::batch_norm_inference_backward_fast(args);
    EXPECT_NE(p.grad_x[30], 0);
    EXPECT_TRUE(std::isfinite(p.grad_x[30]));
    EXPECT_TRUE(std::isnan(p.grad_gamma[0]));
    EXPECT_TRUE(std::isfinite(p.grad_gamma[1]));
  }
}

TEST(BatchNormBackward, EqualBitsFromRunToRunAndAnyNumberOfThreads) {
  const int threads = kernels::max_threads();
  const BatchNormCase shape{3001, 96, true, true};
  for (const int count : {1, 2, 3, 7}) {
    omp_set_num_threads(count);
    Problem first(shape);
    kernels::batch_norm_forward_fast(first.forward());
    Problem second = first;
    BatchNormProblem<double> want = widened(first, shape);
    kernels::batch_norm_backward_fast(first.backward());
    kernels::batch_norm_backward_fast(second.backward());
    ExpectSameBits(second.grad_x, first.grad_x);
    ExpectSameBits(second.grad_gamma, first.grad_gamma);
    kernels::batch_norm_backward_cpu(want.backward());
    expect_same_gradients(first, want, shape);
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace engine::testing
