#pragma once
// A batch norm with its tensors on the device, for the tests of the device's kernels.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/batch_norm/batch_norm_cuda.h"
#include "tests/kernels/batch_norm_problem.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {

inline std::vector<BatchNormCase> batch_norm_device_cases() {
  const int64_t shapes[][2] = {{2, 1},    {5, 3},    {7, 17},   {3, 8},     {64, 8},  {1000, 1}, {333, 3},
                               {257, 24}, {513, 64}, {129, 65}, {33, 2048}, {2, 264}, {2500, 8}};
  std::vector<BatchNormCase> cases;
  for (const auto& [rows, channels] : shapes) {
    for (const bool relu : {false, true}) {
      for (const bool residual : {false, true}) {
        if (channels < 2048 || (relu && residual)) cases.push_back({rows, channels, relu, residual});
      }
    }
  }
  return cases;
}

template <typename T>
std::vector<T> poisoned(size_t count) {
  return stored<T>(std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
}

/// A problem with its tensors on the device; the numbers in `host` are those that T holds.
template <typename T>
struct DeviceNorm {
  explicit DeviceNorm(BatchNormProblem<float> problem)
      : host(round(std::move(problem))),
        x(stored<T>(host.x)),
        residual(stored<T>(host.residual)),
        grad_y(stored<T>(host.grad_y)),
        y(poisoned<T>(host.x.size())),
        grad_x(poisoned<T>(host.x.size())),
        grad_residual(poisoned<T>(host.x.size())),
        mask(std::vector<uint32_t>((host.x.size() + 31) / 32, 0xAAAAAAAA)),
        gamma(host.gamma),
        beta(host.beta),
        running_mean(host.running_mean),
        running_var(host.running_var),
        mean(host.mean),
        invstd(host.invstd),
        grad_gamma(host.grad_gamma),
        grad_beta(host.grad_beta),
        workspace(static_cast<size_t>(kernels::batch_norm_cuda_workspace_bytes(host.rows, host.channels))) {}
  explicit DeviceNorm(const BatchNormCase& shape) : DeviceNorm(BatchNormProblem<float>(shape)) {}

  static BatchNormProblem<float> round(BatchNormProblem<float> problem) {
    for (std::vector<float>* values : {&problem.x, &problem.residual, &problem.grad_y}) {
      *values = as_floats(stored<T>(*values));
    }
    return problem;
  }

  kernels::BatchNormForwardCuda<T> forward() {
    return {.rows = host.rows,
            .channels = host.channels,
            .relu = host.relu,
            .x = x.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .residual = residual.data(),
            .y = y.data(),
            .mask = mask.data(),
            .running_mean = running_mean.data(),
            .running_var = running_var.data(),
            .saved_mean = mean.data(),
            .saved_invstd = invstd.data(),
            .workspace = workspace.data()};
  }

  /// With the mask's bits and, behind a residual, its gradient.
  kernels::BatchNormBackwardCuda<T> backward() {
    return {.rows = host.rows,
            .channels = host.channels,
            .relu = host.relu,
            .x = x.data(),
            .grad_y = grad_y.data(),
            .mask = mask.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .mean = mean.data(),
            .invstd = invstd.data(),
            .grad_x = grad_x.data(),
            .grad_residual = host.residual.empty() ? nullptr : grad_residual.data(),
            .grad_gamma = grad_gamma.data(),
            .grad_beta = grad_beta.data(),
            .workspace = workspace.data()};
  }

  kernels::BatchNormBackwardCuda<T> inference_backward() {
    kernels::BatchNormBackwardCuda<T> args = backward();
    args.mean = running_mean.data();
    args.invstd = nullptr;
    args.running_var = running_var.data();
    return args;
  }

  bool passed(size_t i, const std::vector<uint32_t>& words) const { return (words[i / 32] >> (i % 32) & 1) != 0; }

  BatchNormProblem<float> host;
  DeviceArray<T> x, residual, grad_y, y, grad_x, grad_residual;
  DeviceArray<uint32_t> mask;
  DeviceArray<float> gamma, beta, running_mean, running_var, mean, invstd, grad_gamma, grad_beta;
  DeviceArray<std::byte> workspace;
};

inline BatchNormProblem<double> in_double(const BatchNormProblem<float>& p) {
  BatchNormProblem<double> result({p.rows, p.channels, p.relu, !p.residual.empty()});
  result.x = converted<double>(p.x);
  result.residual = converted<double>(p.residual);
  result.gamma = converted<double>(p.gamma);
  result.beta = converted<double>(p.beta);
  result.running_mean = converted<double>(p.running_mean);
  result.running_var = converted<double>(p.running_var);
  result.grad_y = converted<double>(p.grad_y);
  return result;
}

inline double sum_tolerance(int64_t rows) { return tolerance<float>(rows, OpClass::reduction); }

/// Of results in T that come from sums over rows in float.
template <typename T>
double result_tolerance(int64_t rows) {
  return tolerance(kUnitRoundoff<T>, 1, OpClass::elementwise) + sum_tolerance(rows);
}

}  // namespace engine::testing
