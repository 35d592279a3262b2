#include "kernels/norm/norm_cuda.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/by_warp.h"
#include "kernels/common/device_types.h"
#include "kernels/common/launch.h"
#include "kernels/common/values.h"

namespace engine::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kElementsPerBlock = 16 * kThreads;  // at least; fewer would not pay for a block's reduction

__device__ double squared(float value) { return static_cast<double>(value) * static_cast<double>(value); }

template <typename T>
__global__ void __launch_bounds__(kThreads) norm_partials_kernel(const T* x, int64_t count, NormPartial* partials) {
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  const int64_t thread = int64_t{blockIdx.x} * kThreads + static_cast<int>(threadIdx.x);
  const int64_t packs = count / kPack<T>;
  double sum = 0;
  for (int64_t i = thread; i < packs; i += threads) {
    const auto pack = load_values<kPack<T>>(x + i * kPack<T>);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) sum += squared(pack.at[j]);
  }
  const int64_t last = packs * kPack<T> + thread;
  if (last < count) sum += squared(to_float(x[last]));
  sum = block_reduce<kThreads>(sum, Sum());
  if (threadIdx.x == 0) partials[blockIdx.x].sum_of_squares = sum;
}

__global__ void __launch_bounds__(kThreads)
    norm_decide_kernel(StepState* state, const NormPartial* partials, int count) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum += partials[i].sum_of_squares;
  sum = block_reduce<kThreads>(sum, Sum());
  if (threadIdx.x >= kWarp) return;
  StepState now = load_by_warp(state);
  const double scale = static_cast<double>(now.scaling.scale), clip = static_cast<double>(now.clip_norm);
  const double norm = sqrt(sum) / scale;
  const bool applied = std::isfinite(sum) && std::isfinite(now.loss) && now.halted == 0;
  const double clipping = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
  now.grad_norm = static_cast<float>(norm);
  now.grad_factor = applied ? static_cast<float>(clipping / scale) : 0.0F;
  now.applied = applied ? 1 : 0;
  if (now.halted == 0) now.scaling = advanced(now.scaling, applied, now.dynamic_scale != 0);
  now.halted = applied || now.scaling.skipped_in_a_row < now.most_skips ? 0 : 1;
  if (applied) ++now.applied_steps;
  store_by_warp(state, now, kStepStateHostBytes);
}

}  // namespace

int norm_partials(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kElementsPerBlock - 1) / kElementsPerBlock, kMaxNormPartials));
}

template <typename T>
void gradient_norm_partials_cuda(const T* gradients, int64_t count, NormPartial* partials, cudaStream_t stream) {
  const int blocks = norm_partials(count);
  launch<norm_partials_kernel<T>>({.grid = static_cast<unsigned>(blocks),
                                   .block = kThreads,
                                   .bytes = count * int64_t{sizeof(T)} + blocks * int64_t{sizeof(NormPartial)}},
                                  stream, gradients, count, partials);
}

void decide_step_cuda(StepState* state, const NormPartial* partials, int count, cudaStream_t stream) {
  constexpr int64_t kStateBytes = 2 * sizeof(StepState) - kStepStateHostBytes;  // read, and written without the host's
  launch<norm_decide_kernel>({.block = kThreads, .bytes = kStateBytes + count * int64_t{sizeof(NormPartial)}}, stream,
                             state, partials, count);
}

template void gradient_norm_partials_cuda(const float*, int64_t, NormPartial*, cudaStream_t);
template void gradient_norm_partials_cuda(const Half*, int64_t, NormPartial*, cudaStream_t);
template void gradient_norm_partials_cuda(const BFloat16*, int64_t, NormPartial*, cudaStream_t);

}  // namespace engine::kernels
