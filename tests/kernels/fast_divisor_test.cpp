#include "kernels/common/fast_divisor.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace engine::testing {
namespace {

TEST(FastDivisor, DividesAsTheProcessorDoes) {
  constexpr uint32_t kMost = std::numeric_limits<int32_t>::max();
  std::vector<uint32_t> divisors = {kMost, kMost - 1, 1000003, 715827883};
  for (uint32_t d = 1; d <= 300; ++d) divisors.push_back(d);
  for (int bit = 9; bit < 31; ++bit) {
    for (const int beside : {-1, 0, 1}) divisors.push_back((1U << bit) + static_cast<uint32_t>(beside));
  }
  for (const uint32_t divisor : divisors) {
    const kernels::FastDivisor fast(divisor);
    // Quotients change at multiples, and rounding is worst at the largest of them.
    const uint32_t largest = kMost / divisor * divisor;
    for (const uint32_t value : {0U, 1U, divisor - 1, divisor, largest - 1, largest, kMost - 1, kMost}) {
      ASSERT_EQ(fast.quotient(static_cast<int>(value)), static_cast<int>(value / divisor)) << value << " / " << divisor;
    }
    for (uint64_t multiple = divisor; multiple < kMost; multiple += uint64_t{divisor} * (kMost / divisor / 50 + 1)) {
      ASSERT_EQ(fast.quotient(static_cast<int>(multiple)), static_cast<int>(multiple / divisor));
      ASSERT_EQ(fast.quotient(static_cast<int>(multiple - 1)), static_cast<int>((multiple - 1) / divisor));
    }
  }
}

}  // namespace
}  // namespace engine::testing
