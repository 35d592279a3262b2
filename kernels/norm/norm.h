#pragma once
// Sum of squares and finite check of a flat buffer in one pass. float, double, Half and BFloat16; threaded; results do
// not depend on the number of threads.

#include <cstdint>

namespace engine::kernels {

struct SumOfSquares {
  double value = 0;
  bool finite = true;  // no element is infinite or NaN
};

/// x: [count]. Squares are summed in double, so those of float never overflow.
template <typename T>
SumOfSquares sum_of_squares_cpu(const T* x, int64_t count);

}  // namespace engine::kernels
