#pragma once
// A batch norm with all its tensors, for the tests of the forward and the backward kernels.

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "tests/support/numeric.h"

namespace engine::testing {

struct BatchNormCase {
  int64_t rows, channels;
  bool relu, residual;

  std::string str() const {
    return std::to_string(rows) + "x" + std::to_string(channels) + (residual ? " add" : "") + (relu ? " relu" : "");
  }
};

inline std::vector<BatchNormCase> batch_norm_cases() {
  const int64_t shapes[][2] = {{2, 1},    {5, 3},    {7, 17},    {64, 8},        {1000, 1}, {333, 3},
                               {513, 64}, {129, 65}, {97, 2048}, {16 * 49, 512}, {4099, 31}};
  std::vector<BatchNormCase> cases;
  for (const auto& [rows, channels] : shapes) {
    for (const bool relu : {false, true}) {
      for (const bool residual : {false, true}) {
        cases.push_back({rows, channels, relu, residual});
      }
    }
  }
  return cases;
}

struct WorkspaceLine {
  alignas(64) std::byte bytes[64];
};

inline std::vector<WorkspaceLine> batch_norm_workspace(int64_t channels) {
  return std::vector<WorkspaceLine>(
      (static_cast<size_t>(kernels::batch_norm_workspace_bytes(channels)) + sizeof(WorkspaceLine) - 1) /
      sizeof(WorkspaceLine));
}

template <typename T>
struct BatchNormProblem {
  explicit BatchNormProblem(const BatchNormCase& shape)
      : rows(shape.rows),
        channels(shape.channels),
        relu(shape.relu),
        x(uniform<T>(rows * channels, 1, -1, 3)),
        residual(shape.residual ? uniform<T>(rows * channels, 2) : std::vector<T>()),
        gamma(uniform<T>(channels, 3, -1.5, 1.5)),
        beta(uniform<T>(channels, 4)),
        running_mean(uniform<T>(channels, 5)),
        running_var(uniform<T>(channels, 6, 0.5, 2)),
        grad_y(uniform<T>(rows * channels, 7)),
        y(unwritten<T>(rows * channels)),
        mean(unwritten<T>(channels)),
        invstd(unwritten<T>(channels)),
        grad_x(unwritten<T>(rows * channels)),
        grad_residual(unwritten<T>(shape.residual ? rows * channels : 0)),
        grad_gamma(unwritten<T>(channels)),
        grad_beta(unwritten<T>(channels)),
        workspace(batch_norm_workspace(channels)) {}

  kernels::BatchNormForward<T> forward() {
    return {.rows = rows,
            .channels = channels,
            .relu = relu,
            .x = x.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .residual = residual.empty() ? nullptr : residual.data(),
            .y = y.data(),
            .running_mean = running_mean.data(),
            .running_var = running_var.data(),
            .saved_mean = mean.data(),
            .saved_invstd = invstd.data(),
            .workspace = workspace[0].bytes};
  }

  kernels::BatchNormBackward<T> backward() {
    return {.rows = rows,
            .channels = channels,
            .relu = relu,
            .x = x.data(),
            .y = y.data(),
            .grad_y = grad_y.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .mean = mean.data(),
            .invstd = invstd.data(),
            .grad_x = grad_x.data(),
            .grad_residual = grad_residual.empty() ? nullptr : grad_residual.data(),
            .grad_gamma = grad_gamma.data(),
            .grad_beta = grad_beta.data(),
            .workspace = workspace[0].bytes};
  }

  kernels::BatchNormBackward<T> inference_backward() {
    kernels::BatchNormBackward<T> args = backward();
    args.mean = running_mean.data();
    args.invstd = nullptr;
    args.running_var = running_var.data();
    return args;
  }

  int64_t rows, channels;
  bool relu;
  std::vector<T> x, residual, gamma, beta, running_mean, running_var, grad_y;
  std::vector<T> y, mean, invstd, grad_x, grad_residual, grad_gamma, grad_beta;
  std::vector<WorkspaceLine> workspace;
};

}  // namespace engine::testing
