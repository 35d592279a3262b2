#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"
#include "kernels/batch_norm/pieces.h"
#include "kernels/batch_norm/workspace.h"
#include "kernels/common/parallel.h"
#include "kernels/common/stream.h"

namespace engine::kernels {
namespace {

enum class Mask { none, from_y, recomputed };

template <Mask kMask>
inline float masked(const BatchNormBackward<float>& args, const BatchNormCoefficients& k, int64_t at, int64_t i) {
  if constexpr (kMask == Mask::none) return args.grad_y[at];
  if constexpr (kMask == Mask::from_y) return args.y[at] <= 0 ? 0.0F : args.grad_y[at];
  return normalise(args.x[at], k.mean[i], k.scale[i], args.beta[i]) <= 0 ? 0.0F : args.grad_y[at];
}

template <Mask kMask>
void prefetch_inputs(const BatchNormBackward<float>& args, int64_t first, int64_t count) {
  prefetch_ahead(args.x + first, count);
  prefetch_ahead(args.grad_y + first, count);
  if constexpr (kMask == Mask::from_y) prefetch_ahead(args.y + first, count);
}

// sum += g and dot += g * (x - mean) over the rows, in float within a chunk, in double across chunks. The masked
// gradient is stored where the residual wants it, which saves the second pass the mask.
template <Mask kMask, bool kStore>
void reduce(const BatchNormBackward<float>& given, const BatchNormCoefficients& k, const BatchNormWorkspace& workspace,
            int64_t part) {
  const BatchNormBackward<float> args = given;
  const int64_t c = args.channels, step = chunk_rows(c);
  const float* mean = k.mean;
  double *sum = workspace.sums(part, 0), *dot = workspace.sums(part, 1);
  float *chunk_sum = workspace.scratch(part, 0), *chunk_dot = workspace.scratch(part, 1);
  std::fill_n(sum, c, 0.0);
  std::fill_n(dot, c, 0.0);
  const Range rows = workspace.rows_of(part);
  for (int64_t begin = rows.begin; begin < rows.end; begin += step) {
    std::fill_n(chunk_sum, c, 0.0F);
    std::fill_n(chunk_dot, c, 0.0F);
    const int64_t end = std::min(begin + step, rows.end);
    for (int64_t row = begin; row < end; ++row) {
      prefetch_inputs<kMask>(args, row * c, c);
#pragma omp simd
      for (int64_t i = 0; i < c; ++i) {
        const int64_t at = row * c + i;
        const float g = masked<kMask>(args, k, at, i);
        chunk_sum[i] += g;
        chunk_dot[i] += g * (args.x[at] - mean[i]);
        if constexpr (kStore) args.grad_residual[at] = g;
      }
    }
#pragma omp simd
    for (int64_t i = 0; i < c; ++i) {
      sum[i] += chunk_sum[i];
      dot[i] += chunk_dot[i];
    }
  }
}

template <Mask kMask, bool kTraining>
void apply(const BatchNormBackward<float>& given, const BatchNormCoefficients& given_k, Range rows) {
  const BatchNormBackward<float> args = given;
  const BatchNormCoefficients k = given_k;
  const int64_t c = args.channels;
  const bool in_place = args.grad_x == args.x || args.grad_x == args.grad_y || args.grad_x == args.y;
  const bool past_cache = streams(args.grad_x, c, args.rows * c) && !in_place;
  for_each_piece_backwards(rows, c, [=](int64_t first, int64_t channel, int64_t width) {
    StreamBuffer buffer(args.grad_x + first, past_cache);
    float* grad_x = buffer.data();
    prefetch_inputs<kMask>(args, first, width);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = first + j, i = channel + j;
      const float g = masked<kMask>(args, k, at, i);
      grad_x[j] = kTraining ? g * k.scale[i] + ((args.x[at] - k.mean[i]) * k.slope[i] + k.offset[i]) : g * k.scale[i];
    }
    buffer.flush(width);
  });
  stream_fence();
}

Mask mask_of(const BatchNormBackward<float>& args) {
  return !args.relu ? Mask::none : args.y != nullptr ? Mask::from_y : Mask::recomputed;
}

using Reduce = void (*)(const BatchNormBackward<float>&, const BatchNormCoefficients&, const BatchNormWorkspace&,
                        int64_t);
using Apply = void (*)(const BatchNormBackward<float>&, const BatchNormCoefficients&, Range);

template <bool kStore>
Reduce choose_reduce(Mask mask) {
  if (mask == Mask::none) return reduce<Mask::none, kStore>;
  return mask == Mask::from_y ? reduce<Mask::from_y, kStore> : reduce<Mask::recomputed, kStore>;
}

template <bool kTraining>
Apply choose_apply(Mask mask) {
  if (mask == Mask::none) return apply<Mask::none, kTraining>;
  return mask == Mask::from_y ? apply<Mask::from_y, kTraining> : apply<Mask::recomputed, kTraining>;
}

template <bool kTraining>
void backward(BatchNormBackward<float> args) {
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  const BatchNormCoefficients k{args.mean, workspace.shared(0), workspace.shared(1), workspace.shared(2)};
  float* invstd = workspace.shared(3);
  for (int64_t i = 0; i < args.channels; ++i) {
    invstd[i] = kTraining ? args.invstd[i] : inverse_std(args.running_var[i], args.eps);
    k.scale[i] = args.gamma[i] * invstd[i];
  }
  Mask mask = mask_of(args);
  const bool store = args.grad_residual != nullptr && (args.relu || args.grad_residual != args.grad_y);
  const Reduce reduce_part = store ? choose_reduce<true>(mask) : choose_reduce<false>(mask);
  workspace.for_each_part([&](int64_t part, Range) { reduce_part(args, k, workspace, part); });
  finish_sums(args, workspace, invstd, k);
  if (args.grad_x == nullptr) return;
  if (store) {
    args.grad_y = args.grad_residual;
    mask = Mask::none;
  }
  const Apply apply_rows = choose_apply<kTraining>(mask);
  workspace.for_each_part([&](int64_t, Range rows) { apply_rows(args, k, rows); });
}

}  // namespace

void batch_norm_backward_fast(const BatchNormBackward<float>& args) { backward<true>(args); }

void batch_norm_inference_backward_fast(const BatchNormBackward<float>& args) { backward<false>(args); }

}  // namespace engine::kernels
