#pragma once
// The arithmetic that every batch-norm kernel must share for a mask that is computed again to equal the first one.

#include <cmath>
#include <cstdint>

#include "kernels/batch_norm/batch_norm.h"

namespace engine::kernels {

template <typename T>
inline T normalise(T x, T mean, T scale, T beta) {
  return (x - mean) * scale + beta;
}

/// max(value, 0) that keeps NaN.
template <typename T>
inline T rectify(T value) {
  return value < 0 ? T{0} : value;
}

template <typename T>
inline T inverse_std(T variance, double eps) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(variance) + eps));
}

/// Writes saved and running statistics of one channel from its mean and its sum of squared deviations.
template <typename T>
void save_statistics(const BatchNormForward<T>& args, int64_t channel, double mean, double squares) {
  const double n = static_cast<double>(args.rows), kept = 1 - args.momentum;
  args.saved_mean[channel] = static_cast<Wide<T>>(mean);
  args.saved_invstd[channel] = static_cast<Wide<T>>(1 / std::sqrt(squares / n + args.eps));
  if (args.running_mean == nullptr) return;
  args.running_mean[channel] = static_cast<Wide<T>>(kept * args.running_mean[channel] + args.momentum * mean);
  args.running_var[channel] =
      static_cast<Wide<T>>(kept * args.running_var[channel] + args.momentum * squares / (n - 1));
}

}  // namespace engine::kernels
