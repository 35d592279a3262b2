#include <array>
#include <cmath>

#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/norm/norm.h"

namespace engine::kernels {
namespace {

constexpr int64_t kParts = 64;  // fixed, so that the result does not depend on the number of threads
constexpr int64_t kGrain = 1 << 15;

// Not inlined: two copies of the loop, for one thread and for many, could be vectorised differently.
template <typename T>
[[gnu::noinline]] SumOfSquares sum_of_part(const T* x, Range range) {
  double sum = 0, zeros = 0;
#pragma omp simd reduction(+ : sum, zeros)
  for (int64_t i = range.begin; i < range.end; ++i) {
    const double value = x[i];
    sum += value * value;
    zeros += value * 0;  // NaN for infinities and NaN, even where the squares of finite values overflow
  }
  return {sum, zeros == 0};
}

// 16-bit floats become floats piece by piece.
template <typename T>
SumOfSquares sum_of_narrow_part(const T* x, Range range) {
  constexpr int64_t kPiece = 2048;
  std::array<float, kPiece> piece;
  SumOfSquares total;
  for (int64_t begin = range.begin; begin < range.end; begin += kPiece) {
    const int64_t count = std::min(kPiece, range.end - begin);
    widen(x + begin, piece.data(), count);
    const SumOfSquares sum = sum_of_part(piece.data(), {0, count});
    total.value += sum.value;
    total.finite = total.finite && sum.finite;
  }
  return total;
}

}  // namespace

template <typename T>
SumOfSquares sum_of_squares_cpu(const T* x, int64_t count) {
  std::array<SumOfSquares, kParts> parts;
  const int64_t grain = kParts * kGrain / (count + 1) + 1;
  parallel_for(kParts, grain, [x, count, &parts](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const Range range = share_of(count, part, kParts);
      if constexpr (kNarrow<T>) {
        parts[static_cast<size_t>(part)] = sum_of_narrow_part(x, range);
      } else {
        parts[static_cast<size_t>(part)] = sum_of_part(x, range);
      }
    }
  });
  SumOfSquares total;
  for (const SumOfSquares& part : parts) {
    total.value += part.value;
    total.finite = total.finite && part.finite;
  }
  return total;
}

template SumOfSquares sum_of_squares_cpu(const float*, int64_t);
template SumOfSquares sum_of_squares_cpu(const double*, int64_t);
template SumOfSquares sum_of_squares_cpu(const Half*, int64_t);
template SumOfSquares sum_of_squares_cpu(const BFloat16*, int64_t);

}  // namespace engine::kernels
