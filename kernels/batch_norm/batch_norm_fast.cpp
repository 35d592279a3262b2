#include <cassert>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"
#include "kernels/batch_norm/workspace.h"
#include "kernels/common/parallel.h"

namespace engine::kernels {
namespace {

// Rows between two visits of the same part: small enough for the second-level cache, large enough for long streams.
template <typename F>
void for_each_chunk_backwards(Range rows, int64_t step, F&& f) {
  for (int64_t end = rows.end; end > rows.begin; end -= step) f(std::max(rows.begin, end - step), end);
}

template <bool kResidual, bool kRelu>
void apply(const BatchNormForward<float>& args, const float* mean, const float* scale, Range rows) {
  const int64_t c = args.channels;
  const float *beta = args.beta, *x = args.x, *residual = args.residual;
  float* y = args.y;
  // Backwards, because the pass before has left the last rows in the cache.
  for_each_chunk_backwards(rows, chunk_rows(c), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * c;
#pragma omp simd
      for (int64_t i = 0; i < c; ++i) {
        float z = normalise(x[first + i], mean[i], scale[i], beta[i]);
        if constexpr (kResidual) z += residual[first + i];
        y[first + i] = kRelu ? rectify(z) : z;
      }
    }
  });
}

void apply(const BatchNormForward<float>& args, const float* mean, const float* scale, Range rows) {
  const auto chosen = args.residual != nullptr ? (args.relu ? apply<true, true> : apply<true, false>)
                                               : (args.relu ? apply<false, true> : apply<false, false>);
  chosen(args, mean, scale, rows);
}

}  // namespace

int64_t batch_norm_workspace_bytes(int64_t channels) { return BatchNormWorkspace::bytes(channels); }

void batch_norm_forward_fast(const BatchNormForward<float>& args) {
  assert(args.rows >= 2);
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  float* scale = workspace.shared(0);
  save_batch_statistics(args, workspace, scale);
  workspace.for_each_part([&](int64_t, Range rows) { apply(args, args.saved_mean, scale, rows); });
}

void batch_norm_inference_fast(const BatchNormForward<float>& args) {
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  float* scale = workspace.shared(0);
  for (int64_t i = 0; i < args.channels; ++i) {
    scale[i] = args.gamma[i] * inverse_std(args.running_var[i], args.eps);
  }
  workspace.for_each_part([&](int64_t, Range rows) { apply(args, args.running_mean, scale, rows); });
}

}  // namespace engine::kernels
