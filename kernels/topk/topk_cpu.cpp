#include <cmath>

#include "kernels/common/half.h"
#include "kernels/common/wide.h"
#include "kernels/topk/topk.h"

namespace engine::kernels {

template <typename T>
int64_t topk_correct_cpu(const T* logits, const int64_t* labels, int64_t rows, int64_t classes, int64_t k) {
  int64_t hits = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const T* values = logits + row * classes;
    const int64_t label = labels[row];
    if (label < 0 || label >= classes) continue;
    const auto own = static_cast<Wide<T>>(values[label]);
    if (std::isnan(own)) continue;
    int64_t above = 0;
    for (int64_t i = 0; i < classes; ++i) {
      const auto value = static_cast<Wide<T>>(values[i]);
      above += value > own || (value == own && i < label) || std::isnan(value);
    }
    hits += above < k;
  }
  return hits;
}

template int64_t topk_correct_cpu(const float*, const int64_t*, int64_t, int64_t, int64_t);
template int64_t topk_correct_cpu(const double*, const int64_t*, int64_t, int64_t, int64_t);
template int64_t topk_correct_cpu(const Half*, const int64_t*, int64_t, int64_t, int64_t);
template int64_t topk_correct_cpu(const BFloat16*, const int64_t*, int64_t, int64_t, int64_t);

}  // namespace engine::kernels
