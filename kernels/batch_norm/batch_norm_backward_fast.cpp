#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"
#include "kernels/batch_norm/pieces.h"
#include "kernels/batch_norm/workspace.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/common/stream.h"

namespace engine::kernels {
namespace {

enum class Mask { none, from_y, recomputed };

template <Mask kMask, typename V, typename T>
inline V masked(const BatchNormBackward<T>& args, const BatchNormCoefficients& k, int64_t at, int64_t i) {
  const V grad_y = load_as<V>(args.grad_y + at);
  if constexpr (kMask == Mask::none) return grad_y;
  if constexpr (kMask == Mask::from_y) return load_as<V>(args.y + at) <= 0 ? V{} : grad_y;
  const V z =
      normalise(load_as<V>(args.x + at), load_as<V>(k.mean + i), load_as<V>(k.scale + i), load_as<V>(args.beta + i));
  return z <= 0 ? V{} : grad_y;
}

template <Mask kMask, typename T>
void prefetch_inputs(const BatchNormBackward<T>& args, int64_t first, int64_t count) {
  prefetch_ahead(args.x + first, count);
  prefetch_ahead(args.grad_y + first, count);
  if constexpr (kMask == Mask::from_y) prefetch_ahead(args.y + first, count);
}

// sum += g and dot += g * (x - mean) over the rows, in float within a chunk, in double across chunks. The masked
// gradient is stored where the residual wants it, which saves the second pass the mask.
template <Mask kMask, bool kStore, typename T>
void reduce(const BatchNormBackward<T>& given, const BatchNormCoefficients& k, const BatchNormWorkspace& workspace,
            int64_t part) {
  const BatchNormBackward<T> args = given;
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
      for_each_vector(c, [=]<typename V>(int64_t i) {
        const int64_t at = row * c + i;
        const V g = masked<kMask, V>(args, k, at, i), x = load_as<V>(args.x + at);
        store_as(chunk_sum + i, load_as<V>(chunk_sum + i) + g);
        store_as(chunk_dot + i, load_as<V>(chunk_dot + i) + g * (x - load_as<V>(mean + i)));
        if constexpr (kStore) store_as(args.grad_residual + at, g);
      });
    }
#pragma omp simd
    for (int64_t i = 0; i < c; ++i) {
      sum[i] += chunk_sum[i];
      dot[i] += chunk_dot[i];
    }
  }
}

template <Mask kMask, bool kTraining, typename T>
void apply(const BatchNormBackward<T>& given, const BatchNormCoefficients& given_k, Range rows) {
  const BatchNormBackward<T> args = given;
  const BatchNormCoefficients k = given_k;
  const int64_t c = args.channels;
  const bool in_place = args.grad_x == args.x || args.grad_x == args.grad_y || args.grad_x == args.y;
  const bool past_cache = streams(args.grad_x, c, args.rows * c) && !in_place;
  for_each_piece_backwards(rows, c, [=](int64_t first, int64_t channel, int64_t width) {
    StreamBuffer buffer(args.grad_x + first, past_cache);
    T* grad_x = buffer.data();
    prefetch_inputs<kMask>(args, first, width);
    for_each_vector(width, [=]<typename V>(int64_t j) {
      const int64_t at = first + j, i = channel + j;
      const V g = masked<kMask, V>(args, k, at, i), scale = load_as<V>(k.scale + i);
      if constexpr (kTraining) {
        const V centred = load_as<V>(args.x + at) - load_as<V>(k.mean + i);
        store_as(grad_x + j, g * scale + (centred * load_as<V>(k.slope + i) + load_as<V>(k.offset + i)));
      } else {
        store_as(grad_x + j, g * scale);
      }
    });
    buffer.flush(width);
  });
  stream_fence();
}

template <typename T>
Mask mask_of(const BatchNormBackward<T>& args) {
  return !args.relu ? Mask::none : args.y != nullptr ? Mask::from_y : Mask::recomputed;
}

template <typename T>
using Reduce = void (*)(const BatchNormBackward<T>&, const BatchNormCoefficients&, const BatchNormWorkspace&, int64_t);
template <typename T>
using Apply = void (*)(const BatchNormBackward<T>&, const BatchNormCoefficients&, Range);

template <bool kStore, typename T>
Reduce<T> choose_reduce(Mask mask) {
  if (mask == Mask::none) return reduce<Mask::none, kStore, T>;
  return mask == Mask::from_y ? reduce<Mask::from_y, kStore, T> : reduce<Mask::recomputed, kStore, T>;
}

template <bool kTraining, typename T>
Apply<T> choose_apply(Mask mask) {
  if (mask == Mask::none) return apply<Mask::none, kTraining, T>;
  return mask == Mask::from_y ? apply<Mask::from_y, kTraining, T> : apply<Mask::recomputed, kTraining, T>;
}

template <bool kTraining, typename T>
void backward(BatchNormBackward<T> args) {
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  const BatchNormCoefficients k{args.mean, workspace.shared(0), workspace.shared(1), workspace.shared(2)};
  float* invstd = workspace.shared(3);
  for (int64_t i = 0; i < args.channels; ++i) {
    invstd[i] = kTraining ? args.invstd[i] : inverse_std(args.running_var[i], args.eps);
    k.scale[i] = args.gamma[i] * invstd[i];
  }
  Mask mask = mask_of(args);
  const bool store = args.grad_residual != nullptr && (args.relu || args.grad_residual != args.grad_y);
  const Reduce<T> reduce_part = store ? choose_reduce<true, T>(mask) : choose_reduce<false, T>(mask);
  workspace.for_each_part([&](int64_t part, Range) { reduce_part(args, k, workspace, part); });
  finish_sums(args, workspace, invstd, k);
  if (args.grad_x == nullptr) return;
  if (store) {
    args.grad_y = args.grad_residual;
    mask = Mask::none;
  }
  const Apply<T> apply_rows = choose_apply<kTraining, T>(mask);
  workspace.for_each_part([&](int64_t, Range rows) { apply_rows(args, k, rows); });
}

}  // namespace

template <typename T>
void batch_norm_backward_fast(const BatchNormBackward<T>& args) {
  backward<true>(args);
}

template <typename T>
void batch_norm_inference_backward_fast(const BatchNormBackward<T>& args) {
  backward<false>(args);
}

template void batch_norm_backward_fast(const BatchNormBackward<float>&);
template void batch_norm_backward_fast(const BatchNormBackward<Half>&);
template void batch_norm_backward_fast(const BatchNormBackward<BFloat16>&);
template void batch_norm_inference_backward_fast(const BatchNormBackward<float>&);
template void batch_norm_inference_backward_fast(const BatchNormBackward<Half>&);
template void batch_norm_inference_backward_fast(const BatchNormBackward<BFloat16>&);

}  // namespace engine::kernels
