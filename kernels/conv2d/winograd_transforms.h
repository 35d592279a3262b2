#pragma once
// The small matrices of Winograd's minimal filtering with six points 0, a, -a, b, -b and infinity, applied to vectors
// of channels. Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (CVPR 2016), for the scheme; the
// matrices follow from the Toom-Cook interpolation. F(4x4, 3x3) gives 4 x 4 outputs of a 3 x 3 filter from 6 x 6
// inputs, F(3x3, 4x4) the 3 x 3 gradients of the filter from a 4 x 4 piece of grad_y; both share the inputs' transform.
// The points a = 1/sqrt(2), b = sqrt(2) keep products of powers near one: measured against FP64 with 16 to 512
// channels, the largest errors are a third to a sixth of those with 1 and 2 (Barabasz, Anderson, Soodhalter, Gregg,
// Error Analysis and Improving the Accuracy of Winograd Convolution, ACM TOMS 46, 2020, study such choices).

#include <cstdint>

#include "kernels/common/vec.h"

namespace engine::kernels::winograd {

inline constexpr int64_t kOutputs = 4;  // a tile's outputs along one side
inline constexpr int64_t kPoints = 6;   // a tile's inputs and products along one side
inline constexpr int64_t kProducts = kPoints * kPoints;

inline constexpr float kA = 0.70710678118654752F, kB = 1.41421356237309505F;
inline constexpr float kA2 = 0.5F, kB2 = 2.0F;
inline constexpr float kA3 = kA * kA2, kB3 = kB * kB2;
inline constexpr float kScale0 = 1 / (kA2 * kB2);  // one over the interpolation's denominators
inline constexpr float kScaleA = 1 / (2 * kA2 * (kA2 - kB2));
inline constexpr float kScaleB = 1 / (2 * kB2 * (kB2 - kA2));

/// Six inputs to six points. In and out are `step` vectors apart; they may be the same.
inline void inputs_to_points(const Vector* d, Vector* to, int64_t step) {
  const Vector d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
  const Vector even_a = d4 - kB2 * d2, odd_a = d3 - kB2 * d1;
  const Vector even_b = d4 - kA2 * d2, odd_b = d3 - kA2 * d1;
  to[0] = d[0] * (kA2 * kB2) + (d4 - (kA2 + kB2) * d2);
  to[step] = even_a + kA * odd_a;
  to[2 * step] = even_a - kA * odd_a;
  to[3 * step] = even_b + kB * odd_b;
  to[4 * step] = even_b - kB * odd_b;
  to[5 * step] = d1 * (kA2 * kB2) + (d5 - (kA2 + kB2) * d3);
}

/// Three filter taps to six points.
inline void filter_to_points(const Vector* g, Vector* to, int64_t step_from, int64_t step) {
  const Vector g0 = g[0], g1 = g[step_from], g2 = g[2 * step_from];
  const Vector even_a = kScaleA * g0 + (kScaleA * kA2) * g2, odd_a = (kScaleA * kA) * g1;
  const Vector even_b = kScaleB * g0 + (kScaleB * kB2) * g2, odd_b = (kScaleB * kB) * g1;
  to[0] = kScale0 * g0;
  to[step] = even_a + odd_a;
  to[2 * step] = even_a - odd_a;
  to[3 * step] = even_b + odd_b;
  to[4 * step] = even_b - odd_b;
  to[5 * step] = g2;
}

/// Four output gradients to six points.
inline void gradients_to_points(const Vector* g, Vector* to, int64_t step_from, int64_t step) {
  const Vector g0 = g[0], g1 = g[step_from], g2 = g[2 * step_from], g3 = g[3 * step_from];
  const Vector even_a = kScaleA * g0 + (kScaleA * kA2) * g2, odd_a = (kScaleA * kA) * g1 + (kScaleA * kA3) * g3;
  const Vector even_b = kScaleB * g0 + (kScaleB * kB2) * g2, odd_b = (kScaleB * kB) * g1 + (kScaleB * kB3) * g3;
  to[0] = kScale0 * g0;
  to[step] = even_a + odd_a;
  to[2 * step] = even_a - odd_a;
  to[3 * step] = even_b + odd_b;
  to[4 * step] = even_b - odd_b;
  to[5 * step] = g3;
}

/// Six points to four outputs.
inline void points_to_outputs(const Vector* m, Vector* to, int64_t step_from, int64_t step) {
  const Vector sum_a = m[step_from] + m[2 * step_from], difference_a = m[step_from] - m[2 * step_from];
  const Vector sum_b = m[3 * step_from] + m[4 * step_from], difference_b = m[3 * step_from] - m[4 * step_from];
  to[0] = m[0] + sum_a + sum_b;
  to[step] = kA * difference_a + kB * difference_b;
  to[2 * step] = kA2 * sum_a + kB2 * sum_b;
  to[3 * step] = kA3 * difference_a + kB3 * difference_b + m[5 * step_from];
}

/// Six points to three filter gradients.
inline void points_to_filter(const Vector* m, Vector* to, int64_t step_from, int64_t step) {
  const Vector sum_a = m[step_from] + m[2 * step_from], difference_a = m[step_from] - m[2 * step_from];
  const Vector sum_b = m[3 * step_from] + m[4 * step_from], difference_b = m[3 * step_from] - m[4 * step_from];
  to[0] = m[0] + sum_a + sum_b;
  to[step] = kA * difference_a + kB * difference_b;
  to[2 * step] = kA2 * sum_a + kB2 * sum_b + m[5 * step_from];
}

}  // namespace engine::kernels::winograd
