#include "kernels/ema/ema_cuda.h"

#include <algorithm>

#include "kernels/common/by_warp.h"
#include "kernels/common/launch.h"
#include "kernels/common/values.h"

namespace engine::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kPart = 4096;

template <int kCount>
__device__ void average_values(float kept, float taken, const float* weights, float* average) {
  const Values<kCount> w = load_values<kCount>(weights);
  Values<kCount> a = load_values<kCount>(average);
#pragma unroll
  for (int i = 0; i < kCount; ++i) a.at[i] = kept * a.at[i] + taken * w.at[i];
  store_values(average, a);
}

__global__ void __launch_bounds__(kThreads)
    ema_update_kernel(const StepState* state, float kept, float taken, const EmaPair* parts) {
  if (load_by_warp(state).applied == 0) return;
  const EmaPair part = load_by_warp(parts + blockIdx.x);
  const bool vectors =
      (reinterpret_cast<uintptr_t>(part.weights) | reinterpret_cast<uintptr_t>(part.average)) % 16 == 0;
  const int count = static_cast<int>(part.count), whole = vectors ? count / 4 * 4 : 0;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 4 * thread; i < whole; i += 4 * kThreads) {
    average_values<4>(kept, taken, part.weights + i, part.average + i);
  }
  for (int i = whole + thread; i < count; i += kThreads) {
    average_values<1>(kept, taken, part.weights + i, part.average + i);
  }
}

}  // namespace

std::vector<EmaPair> ema_parts(std::span<const EmaPair> pairs) {
  std::vector<EmaPair> parts;
  for (const EmaPair& pair : pairs) {
    for (int64_t begin = 0; begin < pair.count; begin += kPart) {
      parts.push_back({pair.weights + begin, pair.average + begin, std::min(kPart, pair.count - begin)});
    }
  }
  return parts;
}

void ema_update_cuda(const StepState* state, double decay, const EmaPair* parts, int count, int64_t elements,
                     cudaStream_t stream) {
  launch<ema_update_kernel>({.grid = static_cast<unsigned>(count), .block = kThreads, .bytes = 12 * elements}, stream,
                            state, static_cast<float>(decay), static_cast<float>(1 - decay), parts);
}

}  // namespace engine::kernels
