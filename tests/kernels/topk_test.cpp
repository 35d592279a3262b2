#include "kernels/topk/topk.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace engine::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

template <typename T>
class TopK : public ::testing::Test {
 protected:
  static int64_t hits(const std::vector<double>& logits, const std::vector<int64_t>& labels, int64_t k) {
    const std::vector<T> values(logits.begin(), logits.end());
    const auto rows = static_cast<int64_t>(labels.size());
    return kernels::topk_correct_cpu(values.data(), labels.data(), rows, static_cast<int64_t>(values.size()) / rows, k);
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(TopK, Types);

TYPED_TEST(TopK, CountsRows) {
  const std::vector<double> logits = {3, 1, 2, 3, 1, 2, 3, 1, 2};
  EXPECT_EQ(this->hits(logits, {0, 1, 2}, 1), 1);
  EXPECT_EQ(this->hits(logits, {0, 1, 2}, 2), 2);
  EXPECT_EQ(this->hits(logits, {0, 1, 2}, 3), 3);
  EXPECT_EQ(this->hits(logits, {0, 1, 2}, 5), 3);
}

TYPED_TEST(TopK, LowerIndexWinsATie) {
  EXPECT_EQ(this->hits({1, 1, 1}, {0}, 1), 1);
  EXPECT_EQ(this->hits({1, 1, 1}, {1}, 1), 0);
  EXPECT_EQ(this->hits({1, 1, 1}, {1}, 2), 1);
  EXPECT_EQ(this->hits({1, 1, 1}, {2}, 2), 0);
  EXPECT_EQ(this->hits({kInf, kInf, -kInf}, {1}, 1), 0);
}

TYPED_TEST(TopK, NanIsNeverAHitAndRanksAboveNumbers) {
  EXPECT_EQ(this->hits({kNan, 0, 0}, {0}, 3), 0);
  EXPECT_EQ(this->hits({kNan, kNan, kNan}, {1}, 5), 0);
  EXPECT_EQ(this->hits({kNan, 5, 0}, {1}, 1), 0);
  EXPECT_EQ(this->hits({kNan, 5, 0}, {1}, 2), 1);
}

TYPED_TEST(TopK, ImpossibleLabelIsNoHit) {
  EXPECT_EQ(this->hits({1, 2, 3}, {-1}, 5), 0);
  EXPECT_EQ(this->hits({1, 2, 3}, {3}, 5), 0);
}

}  // namespace
}  // namespace engine::testing
