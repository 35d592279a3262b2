#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/parallel.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::SumOfSquares;

template <typename T>
SumOfSquares of(const std::vector<T>& values) {
  return kernels::sum_of_squares_cpu(values.data(), static_cast<int64_t>(values.size()));
}

template <typename T>
class Norm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Norm, Types);

TYPED_TEST(Norm, SumsSquaresOfAnySize) {
  for (const int64_t count : {0, 1, 2, 63, 64, 65, 1000, 300001}) {
    const std::vector<TypeParam> x = uniform<TypeParam>(count, 1);
    long double want = 0;
    for (const TypeParam value : x) want += static_cast<long double>(value) * value;
    const SumOfSquares got = of(x);
    EXPECT_TRUE(got.finite);
    ExpectClose(std::vector<double>{got.value}, std::vector<double>{static_cast<double>(want)},
                tolerance<double>(count, OpClass::reduction));
  }
}

TYPED_TEST(Norm, OneBadElementAnywhereIsFound) {
  for (const TypeParam bad : {std::numeric_limits<TypeParam>::quiet_NaN(), std::numeric_limits<TypeParam>::infinity(),
                              -std::numeric_limits<TypeParam>::infinity()}) {
    for (const size_t place : {size_t{0}, size_t{1}, size_t{500}, size_t{998}, size_t{1000}}) {
      std::vector<TypeParam> x = uniform<TypeParam>(1001, 1);
      x[place] = bad;
      EXPECT_FALSE(of(x).finite) << place;
    }
  }
}

TEST(NormOfFlatBuffer, LargeFiniteValuesAreFinite) {
  const std::vector<float> x(1000, std::numeric_limits<float>::max());
  EXPECT_TRUE(of(x).finite);
  EXPECT_TRUE(std::isfinite(of(x).value));
  EXPECT_TRUE(of(std::vector<double>{1e200, -1e300}).finite);
}

TEST(NormOfFlatBuffer, DoesNotDependOnThreads) {
  const std::vector<float> x = uniform<float>(3000001, 1);
  const int threads = kernels::max_threads();
  const double want = of(x).value;
  for (const int count : {1, 2, 3, 7}) {
    omp_set_num_threads(count);
    EXPECT_EQ(of(x).value, want);
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace engine::testing
