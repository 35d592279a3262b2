#include <cmath>

#include "kernels/common/philox.h"
#include "kernels/common/pointwise.h"
#include "kernels/dropout/dropout_cuda.h"

namespace engine::kernels {
namespace {

struct Chances {
  uint64_t seed, offset;
  uint32_t keep_from;  // the least upper 24 bits of a word that let an element live
  float scale;
};

// Multiplying by a power of two is exact, so this compares as the uniform number with the probability would.
Chances chances(const Dropout& spec) {
  return {.seed = spec.seed,
          .offset = spec.offset,
          .keep_from = static_cast<uint32_t>(std::ceil(spec.probability * 0x1p24)),
          .scale = static_cast<float>(1 / (1 - spec.probability))};
}

template <typename T, int kWidth>
__global__ void dropout_forward_kernel(Chances chances, const uint64_t* offset, const T* x, T* y, int64_t count) {
  if (offset != nullptr) chances.offset += *offset;
  map_groups<kWidth>(
      count,
      [chances]<int kCount>(Count<kCount>, int64_t first, Values<kCount> values) {
        Philox::Block words;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          if (i % 4 == 0) words = Philox::block(chances.seed, static_cast<uint64_t>(first + i) / 4, chances.offset);
          uint32_t word = words[i % 4];
          // A lone element may be any of its block's; picked without an index, which would put them in memory.
          if constexpr (kCount == 1) {
            const auto place = static_cast<int>(first % 4);
            word = place == 0 ? words[0] : place == 1 ? words[1] : place == 2 ? words[2] : words[3];
          }
          values.at[i] = (word >> 8) >= chances.keep_from ? values.at[i] * chances.scale : 0.0F;
        }
        return values;
      },
      y, x);
}

}  // namespace

template <typename T>
void dropout_forward_cuda(const DropoutCuda<T>& args, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  static_assert(kWidth % 4 == 0);
  if (aligned_groups<kWidth>(args.x, args.y)) {
    launch<dropout_forward_kernel<T, kWidth>>(map_shape<T, T>(args.count, kWidth), stream, chances(args.spec),
                                              args.offset, args.x, args.y, args.count);
  } else {
    launch<dropout_forward_kernel<T, 1>>(map_shape<T, T>(args.count, 1), stream, chances(args.spec), args.offset,
                                         args.x, args.y, args.count);
  }
}

template <typename T>
void dropout_backward_cuda(const DropoutCuda<T>& args, cudaStream_t stream) {
  dropout_forward_cuda(args, stream);
}

template void dropout_forward_cuda(const DropoutCuda<float>&, cudaStream_t);
template void dropout_forward_cuda(const DropoutCuda<Half>&, cudaStream_t);
template void dropout_forward_cuda(const DropoutCuda<BFloat16>&, cudaStream_t);
template void dropout_backward_cuda(const DropoutCuda<float>&, cudaStream_t);
template void dropout_backward_cuda(const DropoutCuda<Half>&, cudaStream_t);
template void dropout_backward_cuda(const DropoutCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
