#include <algorithm>

#include "kernels/common/half.h"
#include "kernels/common/parallel.h"
#include "kernels/common/philox.h"
#include "kernels/common/wide.h"
#include "kernels/dropout/dropout.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrainBlocks = 1 << 11;

}  // namespace

template <typename T>
void dropout_forward_cpu(const Dropout& spec, const T* x, T* y, int64_t count) {
  const auto scale = static_cast<Wide<T>>(1 / (1 - spec.probability));
  parallel_for((count + 3) / 4, kGrainBlocks, [=](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const Philox::Block words = Philox::block(spec.seed, static_cast<uint64_t>(block), spec.offset);
      for (int64_t i = block * 4; i < std::min(block * 4 + 4, count); ++i) {
        const bool keep = Philox::uniform(words[static_cast<size_t>(i % 4)]) >= spec.probability;
        y[i] = T(keep ? static_cast<Wide<T>>(x[i]) * scale : Wide<T>{0});
      }
    }
  });
}

template <typename T>
void dropout_backward_cpu(const Dropout& spec, const T* grad_y, T* grad_x, int64_t count) {
  dropout_forward_cpu(spec, grad_y, grad_x, count);
}

template void dropout_forward_cpu(const Dropout&, const float*, float*, int64_t);
template void dropout_forward_cpu(const Dropout&, const double*, double*, int64_t);
template void dropout_forward_cpu(const Dropout&, const Half*, Half*, int64_t);
template void dropout_forward_cpu(const Dropout&, const BFloat16*, BFloat16*, int64_t);
template void dropout_backward_cpu(const Dropout&, const float*, float*, int64_t);
template void dropout_backward_cpu(const Dropout&, const double*, double*, int64_t);
template void dropout_backward_cpu(const Dropout&, const Half*, Half*, int64_t);
template void dropout_backward_cpu(const Dropout&, const BFloat16*, BFloat16*, int64_t);

}  // namespace engine::kernels
