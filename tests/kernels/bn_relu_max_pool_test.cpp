#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/common/parallel.h"
#include "kernels/max_pool2d/max_pool2d.h"
#include "tests/kernels/batch_norm_problem.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::BnReluMaxPoolBackward;
using kernels::BnReluMaxPoolForward;
using kernels::Pool2dShape;

const std::vector<Pool2dShape> kShapes = {
    {.n = 2,
     .h = 12,
     .w = 10,
     .c = 64,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 3,
     .h = 7,
     .w = 5,
     .c = 3,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 1,
     .stride_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 1, .h = 9, .w = 8, .c = 17, .kernel_h = 2, .kernel_w = 2, .stride_h = 3, .stride_w = 3},
    {.n = 4,
     .h = 33,
     .w = 32,
     .c = 65,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1},
};

template <typename T>
struct Problem {
  explicit Problem(const Pool2dShape& s)
      : shape(s),
        rows(s.n * s.h * s.w),
        outputs(s.n * s.out_h() * s.out_w() * s.c),
        x(uniform<T>(rows * s.c, 1, -1, 3)),
        gamma(uniform<T>(s.c, 2, -1.5, 1.5)),
        beta(uniform<T>(s.c, 3)),
        grad_y(uniform<T>(outputs, 4)),
        y(unwritten<T>(outputs)),
        running_mean(static_cast<size_t>(s.c)),
        running_var(static_cast<size_t>(s.c), 1),
        mean(unwritten<T>(s.c)),
        invstd(unwritten<T>(s.c)),
        grad_x(unwritten<T>(rows * s.c)),
        grad_gamma(unwritten<T>(s.c)),
        grad_beta(unwritten<T>(s.c)),
        index(static_cast<size_t>(outputs)),
        workspace((static_cast<size_t>(kernels::bn_relu_max_pool_workspace_bytes(s)) + 63) / 64) {}

  BnReluMaxPoolForward<T> forward() {
    return {.shape = shape,
            .x = x.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .y = y.data(),
            .index = index.data(),
            .running_mean = running_mean.data(),
            .running_var = running_var.data(),
            .saved_mean = mean.data(),
            .saved_invstd = invstd.data(),
            .workspace = workspace[0].bytes};
  }

  BnReluMaxPoolBackward<T> backward() {
    return {.shape = shape,
            .x = x.data(),
            .grad_y = grad_y.data(),
            .index = index.data(),
            .gamma = gamma.data(),
            .mean = mean.data(),
            .invstd = invstd.data(),
            .grad_x = grad_x.data(),
            .grad_gamma = grad_gamma.data(),
            .grad_beta = grad_beta.data(),
            .workspace = workspace[0].bytes};
  }

  Pool2dShape shape;
  int64_t rows, outputs;
  std::vector<T> x, gamma, beta, grad_y, y, running_mean, running_var, mean, invstd, grad_x, grad_gamma, grad_beta;
  std::vector<uint8_t> index;
  std::vector<WorkspaceLine> workspace;
};

// The same by the kernels one after another, in the fast form.
Problem<float> separately(const Pool2dShape& shape) {
  Problem<float> p(shape);
  BatchNormProblem<float> norm({p.rows, shape.c, true, false});
  norm.x = p.x;
  norm.gamma = p.gamma;
  norm.beta = p.beta;
  norm.running_mean = p.running_mean;
  norm.running_var = p.running_var;
  kernels::batch_norm_forward_fast(norm.forward());
  kernels::max_pool2d_forward_fast(shape, norm.y.data(), p.y.data(), p.index.data());
  kernels::max_pool2d_backward_fast(shape, p.grad_y.data(), p.index.data(), norm.grad_y.data());
  kernels::batch_norm_backward_fast(norm.backward());
  p.running_mean = norm.running_mean;
  p.running_var = norm.running_var;
  p.mean = norm.mean;
  p.invstd = norm.invstd;
  p.grad_x = norm.grad_x;
  p.grad_gamma = norm.grad_gamma;
  p.grad_beta = norm.grad_beta;
  return p;
}

template <typename F>
void expect_as_separate(const Pool2dShape& shape, F&& forward_and_backward) {
  const Problem<float> want = separately(shape);
  Problem<float> got(shape);
  forward_and_backward(got);
  const double tol = tolerance<float>(got.rows, OpClass::reduction), sum = std::sqrt(static_cast<double>(got.rows));
  ExpectClose(got.y, want.y, tol, "y");
  ExpectClose(got.mean, want.mean, tol, "mean");
  ExpectClose(got.invstd, want.invstd, tol, "invstd");
  ExpectClose(got.running_mean, want.running_mean, tol, "running mean");
  ExpectClose(got.running_var, want.running_var, tol, "running var");
  ExpectClose(got.grad_x, want.grad_x, tol, "x");
  ExpectClose(got.grad_gamma, want.grad_gamma, tol, "gamma", sum);
  ExpectClose(got.grad_beta, want.grad_beta, tol, "beta", sum);
}

TEST(BnReluMaxPool, FastEqualsTheSeparateKernels) {
  for (const Pool2dShape& shape : kShapes) {
    expect_as_separate(shape, [](Problem<float>& p) {
      kernels::bn_relu_max_pool_forward_fast(p.forward());
      kernels::bn_relu_max_pool_backward_fast(p.backward());
    });
  }
}

TEST(BnReluMaxPool, ReferenceEqualsTheSeparateKernels) {
  for (const Pool2dShape& shape : kShapes) {
    expect_as_separate(shape, [](Problem<float>& p) {
      kernels::bn_relu_max_pool_forward_cpu(p.forward());
      kernels::bn_relu_max_pool_backward_cpu(p.backward());
    });
  }
}

TEST(BnReluMaxPool, ResultIsThatOfTheSeparateKernelsToTheLastBit) {
  for (const Pool2dShape& shape : kShapes) {
    const Problem<float> want = separately(shape);
    Problem<float> got(shape);
    kernels::bn_relu_max_pool_forward_fast(got.forward());
    for (size_t i = 0; i < got.y.size(); ++i) {
      ASSERT_EQ(got.y[i], want.y[i]) << i;
      ASSERT_EQ(got.index[i], got.y[i] > 0 ? want.index[i] : kernels::kNoWinner) << i;
    }
  }
}

TEST(BnReluMaxPool, ReferenceAgreesWithFiniteDifferences) {
  for (const Pool2dShape& shape : kShapes) {
    Problem<double> p(shape);
    if (p.rows * shape.c > 2000) continue;
    const auto loss = [&] {
      kernels::bn_relu_max_pool_forward_cpu(p.forward());
      return dot(p.y, p.grad_y);
    };
    loss();
    kernels::bn_relu_max_pool_backward_cpu(p.backward());
    const double tol = tolerance<double>(p.rows, OpClass::finite_difference);
    ExpectClose(p.grad_x, numeric_gradient(p.x, loss), tol, "x");
    ExpectClose(p.grad_gamma, numeric_gradient(p.gamma, loss), tol, "gamma");
    ExpectClose(p.grad_beta, numeric_gradient(p.beta, loss), tol, "beta");
  }
}

TEST(BnReluMaxPool, GradientMayBeInPlaceOrLeftOut) {
  for (const Pool2dShape& shape : kShapes) {
    Problem<float> apart(shape);
    kernels::bn_relu_max_pool_forward_fast(apart.forward());
    Problem<float> over = apart, without = apart;
    kernels::bn_relu_max_pool_backward_fast(apart.backward());
    BnReluMaxPoolBackward<float> args = over.backward();
    args.grad_x = over.x.data();
    kernels::bn_relu_max_pool_backward_fast(args);
    ExpectSameBits(over.x, apart.grad_x, "in place");
    args = without.backward();
    args.grad_x = nullptr;
    kernels::bn_relu_max_pool_backward_fast(args);
    ExpectSameBits(without.grad_gamma, apart.grad_gamma, "left out");
  }
}

TEST(BnReluMaxPool, NanShowsInItsChannelOnly) {
  for (const auto forward : {kernels::bn_relu_max_pool_forward_fast, kernels::bn_relu_max_pool_forward_cpu<float>}) {
    Problem<float> p(kShapes[0]);
    p.x[64 * 20 + 5] = std::numeric_limits<float>::quiet_NaN();
    forward(p.forward());
    for (size_t i = 0; i < p.y.size(); ++i) ASSERT_EQ(std::isnan(p.y[i]), i % 64 == 5) << i;
  }
}

TEST(BnReluMaxPool, EqualBitsFromRunToRunAndAnyNumberOfThreads) {
  const int threads = kernels::max_threads();
  const Pool2dShape& shape = kShapes[3];
  for (const int count : {1, 2, 3, 7}) {
    omp_set_num_threads(count);
    expect_as_separate(shape, [](Problem<float>& p) {
      Problem<float> again = p;
      kernels::bn_relu_max_pool_forward_fast(p.forward());
      kernels::bn_relu_max_pool_backward_fast(p.backward());
      kernels::bn_relu_max_pool_forward_fast(again.forward());
      kernels::bn_relu_max_pool_backward_fast(again.backward());
      ExpectSameBits(again.y, p.y);
      ExpectSameBits(again.grad_x, p.grad_x);
    });
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace engine::testing
