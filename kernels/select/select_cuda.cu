#include "kernels/common/by_warp.h"
#include "kernels/common/launch.h"
#include "kernels/select/select_cuda.h"

namespace engine::kernels {
namespace {

constexpr int kThreads = 64;  // most buffers are small

/// By all threads of the block.
__device__ void copy_part(void* target, const void* source, int64_t bytes) {
  const bool vectors = (reinterpret_cast<uintptr_t>(target) | reinterpret_cast<uintptr_t>(source)) % 16 == 0;
  const int thread = static_cast<int>(threadIdx.x), words = static_cast<int>(bytes / 4);
  const int whole = vectors ? words / 4 : 0;
  auto* wide_target = static_cast<detail::Bits128*>(target);
  const auto* wide_source = static_cast<const detail::Bits128*>(source);
  for (int i = thread; i < whole; i += kThreads) wide_target[i] = wide_source[i];
  auto* word_target = static_cast<uint32_t*>(target);
  const auto* word_source = static_cast<const uint32_t*>(source);
  for (int i = 4 * whole + thread; i < words; i += kThreads) word_target[i] = word_source[i];
}

__global__ void __launch_bounds__(kThreads) select_keep_kernel(const KeptBuffer* parts) {
  const KeptBuffer part = load_by_warp(parts + blockIdx.x);
  copy_part(part.kept, part.live, part.bytes);
}

__global__ void __launch_bounds__(kThreads) select_restore_kernel(const StepState* state, const KeptBuffer* parts) {
  if (load_by_warp(state).applied != 0) return;
  const KeptBuffer part = load_by_warp(parts + blockIdx.x);
  copy_part(part.live, part.kept, part.bytes);
}

LaunchShape shape_of(int count, int64_t bytes) {
  return {.grid = static_cast<unsigned>(count), .block = kThreads, .bytes = 2 * bytes};
}

}  // namespace

void keep_cuda(const KeptBuffer* parts, int count, int64_t bytes, cudaStream_t stream) {
  launch<select_keep_kernel>(shape_of(count, bytes), stream, parts);
}

void restore_if_skipped_cuda(const StepState* state, const KeptBuffer* parts, int count, int64_t bytes,
                             cudaStream_t stream) {
  launch<select_restore_kernel>(shape_of(count, bytes), stream, state, parts);
}

}  // namespace engine::kernels
