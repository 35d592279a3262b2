#include "kernels/batch_norm/workspace.h"

#include "kernels/batch_norm/normalise.h"
#include "kernels/common/half.h"

namespace engine::kernels {

template <typename T>
void save_batch_statistics(const BatchNormForward<T>& args, const BatchNormWorkspace& workspace, float* scale) {
  workspace.for_each_part([&](int64_t part, Range rows) {
    workspace.statistics(part, 0).add(args.x + rows.begin * args.channels, rows.end - rows.begin);
  });
  const auto size = [&](int64_t part) { return workspace.rows_of(part).end - workspace.rows_of(part).begin; };
  ColumnStatistics total = workspace.statistics(0, size(0));
  for (int64_t part = 1; part < workspace.parts(); ++part) total.merge(workspace.statistics(part, size(part)));
  for (int64_t i = 0; i < args.channels; ++i) {
    save_statistics(args, i, total.mean[i], total.squares[i]);
    scale[i] = args.gamma[i] * args.saved_invstd[i];
  }
}

template <typename T>
void finish_sums(const BatchNormBackward<T>& args, const BatchNormWorkspace& workspace, const float* invstd,
                 const BatchNormCoefficients& k) {
  const double n = static_cast<double>(args.rows);
  for (int64_t i = 0; i < args.channels; ++i) {
    double sum = 0, dot = 0;
    for (int64_t part = 0; part < workspace.parts(); ++part) {
      sum += workspace.sums(part, 0)[i];
      dot += workspace.sums(part, 1)[i];
    }
    args.grad_beta[i] = static_cast<float>(sum);
    args.grad_gamma[i] = static_cast<float>(dot * invstd[i]);
    const double gain = static_cast<double>(args.gamma[i]) * invstd[i];
    k.slope[i] = static_cast<float>(-gain * invstd[i] * invstd[i] * dot / n);
    k.offset[i] = static_cast<float>(-gain * sum / n);
  }
}

template void save_batch_statistics(const BatchNormForward<float>&, const BatchNormWorkspace&, float*);
template void save_batch_statistics(const BatchNormForward<Half>&, const BatchNormWorkspace&, float*);
template void save_batch_statistics(const BatchNormForward<BFloat16>&, const BatchNormWorkspace&, float*);
template void finish_sums(const BatchNormBackward<float>&, const BatchNormWorkspace&, const float*,
                          const BatchNormCoefficients&);
template void finish_sums(const BatchNormBackward<Half>&, const BatchNormWorkspace&, const float*,
                          const BatchNormCoefficients&);
template void finish_sums(const BatchNormBackward<BFloat16>&, const BatchNormWorkspace&, const float*,
                          const BatchNormCoefficients&);

}  // namespace engine::kernels
