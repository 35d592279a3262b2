#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/common/parallel.h"
#include "kernels/input/input.h"

namespace engine::kernels {

PixelScale pixel_scale(const float* mean, const float* std, int channels) {
  PixelScale result;
  for (int k = 0; k < channels; ++k) {
    const auto deviation = static_cast<double>(std[k]);
    result.scale[k] = static_cast<float>(1.0 / (255.0 * deviation));
    result.shift[k] = static_cast<float>(-static_cast<double>(mean[k]) / deviation);
  }
  return result;
}

void check_input(const InputSpec& spec) {
  if ((spec.c != 1 && spec.c != 3) || (spec.c_padded != spec.c && spec.c_padded != 4 && spec.c_padded != 8)) {
    throw std::invalid_argument("[input] channels: got " + std::to_string(spec.c) + " padded to " +
                                std::to_string(spec.c_padded) + ", expected 1 or 3 padded to none, 4 or 8");
  }
  // Rows, and a row's padded elements, are counted by int.
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max(), kMostColumns = kMostRows / 8;
  const bool positive = spec.n >= 0 && spec.h >= 0 && spec.w >= 0;
  if (!positive || spec.w > kMostColumns || (spec.h > 0 && spec.n > kMostRows / spec.h)) {
    throw std::invalid_argument("[input] pictures: got extents " + std::to_string(spec.n) + ", " +
                                std::to_string(spec.h) + ", " + std::to_string(spec.w) +
                                ", expected 0 or more, at most " + std::to_string(kMostRows) + " rows and " +
                                std::to_string(kMostColumns) + " columns");
  }
}

template <typename T>
void input_cpu(const InputSpec& spec, const uint8_t* pictures, const uint8_t* flips, T* y) {
  check_input(spec);
  parallel_for(spec.n * spec.h, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const bool flip = flips != nullptr && flips[row / spec.h] != 0;
      for (int64_t x = 0; x < spec.w; ++x) {
        const int64_t source = (row * spec.w + (flip ? spec.w - 1 - x : x)) * spec.c;
        T* pixel = y + (row * spec.w + x) * spec.c_padded;
        for (int k = 0; k < spec.c_padded; ++k) {
          pixel[k] = k < spec.c ? static_cast<T>(pictures[source + k]) * static_cast<T>(spec.pixel.scale[k]) +
                                      static_cast<T>(spec.pixel.shift[k])
                                : T(0);
        }
      }
    }
  });
}

template void input_cpu(const InputSpec&, const uint8_t*, const uint8_t*, float*);
template void input_cpu(const InputSpec&, const uint8_t*, const uint8_t*, double*);

}  // namespace engine::kernels
