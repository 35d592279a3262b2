#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace engine::testing {

/// What kind of arithmetic led to a value; it decides how fast rounding errors grow.
enum class OpClass {
  elementwise,        // a few roundings a value, no sum
  transcendental,     // chains of exp, log, sqrt and division (softmax, optimizer updates)
  reduction,          // a sum of reduction_length values (means, variances, bias gradients, losses)
  matmul,             // a dot product of reduction_length pairs (matrix products, direct convolutions)
  winograd,           // a convolution through Winograd's minimal filtering
  finite_difference,  // a central difference against an analytic gradient: truncation dominates
};

/// The one table of tolerances: the largest admissible |got - want| as a share of the values' scale, which is the
/// largest |want| of what is compared. T, float or double, is the type in which the tested code stores. A sum's error
/// grows like the square root of its length when roundings are independent (Higham, Accuracy and Stability of Numerical
/// Algorithms, 2nd edition, section 2.8); the factors leave room for unlucky orders of summation.
template <typename T>
double tolerance(int64_t reduction_length, OpClass op_class);

/// The same by unit roundoff, for storage types that C++ lacks: 2^-11 for FP16, 2^-8 for BF16.
double tolerance(double unit_roundoff, int64_t reduction_length, OpClass op_class);

/// For runs that blow up any rounding error: how far two equally good ways of adding up end apart is the yardstick. A
/// third way may end so many yardsticks off, and a yardstick longer than this tells nothing.
inline constexpr double kMostYardsticks = 4;
inline constexpr double kLongestYardstick = 0x1p-8;

/// How far a predicted peak of memory may be from a real one, as a share of it (the project's own promise).
inline constexpr double kMemoryPrediction = 0x1p-5 + 0x1p-6;  // 4.7 %

inline constexpr double kUnitRoundoffF16 = 0x1p-11;
inline constexpr double kUnitRoundoffBf16 = 0x1p-8;

/// Each fails at the first value further than tol * scale from the wanted one, naming index and both values, and when
/// the sizes differ. A scale of zero means the largest finite |want|, or one where all wanted values are zero; give
/// the summands' size where sums cancel. NaN fails unless both are NaN; infinities must be equal.
void ExpectClose(std::span<const float> got, std::span<const float> want, double tol, std::string_view what = "",
                 double scale = 0);
void ExpectClose(std::span<const double> got, std::span<const double> want, double tol, std::string_view what = "",
                 double scale = 0);
void ExpectClose(std::span<const float> got, std::span<const double> want, double tol, std::string_view what = "",
                 double scale = 0);

}  // namespace engine::testing
