#include "kernels/input/input.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::input_cpu;
using kernels::InputSpec;

constexpr float kMean[] = {0.485F, 0.456F, 0.406F}, kStd[] = {0.229F, 0.224F, 0.225F};

template <typename T>
class InputCase : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(InputCase, Types);

// All pixel values, by ToTensor and Normalize as torchvision defines them.
TYPED_TEST(InputCase, NormalizesEveryPixelValue) {
  std::vector<uint8_t> pictures;
  std::vector<double> want;
  for (int value = 0; value < 256; ++value) {
    for (int k = 0; k < 3; ++k) {
      pictures.push_back(static_cast<uint8_t>(value));
      want.push_back((value / 255.0 - static_cast<double>(kMean[k])) / static_cast<double>(kStd[k]));
    }
  }
  std::vector<TypeParam> y(pictures.size());
  input_cpu({.n = 1, .h = 16, .w = 16, .pixel = kernels::pixel_scale(kMean, kStd, 3)}, pictures.data(), nullptr,
            y.data());
  ExpectClose(y, converted<TypeParam>(want), tolerance<float>(1, OpClass::elementwise));
}

TYPED_TEST(InputCase, FlipsSomeAndPads) {
  const std::vector<uint8_t> pictures{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // [2, 1, 2, 3]
  const std::vector<uint8_t> flips{0, 1};
  std::vector<TypeParam> y = unwritten<TypeParam>(16);
  input_cpu({.n = 2, .h = 1, .w = 2, .c_padded = 4}, pictures.data(), flips.data(), y.data());
  EXPECT_EQ(y, (std::vector<TypeParam>{1, 2, 3, 0, 4, 5, 6, 0, 10, 11, 12, 0, 7, 8, 9, 0}));
}

TYPED_TEST(InputCase, GrayPictures) {
  const std::vector<uint8_t> pictures{10, 20};
  std::vector<TypeParam> y = unwritten<TypeParam>(2);
  input_cpu({.n = 1, .h = 2, .w = 1, .c = 1, .c_padded = 1}, pictures.data(), nullptr, y.data());
  EXPECT_EQ(y, (std::vector<TypeParam>{10, 20}));
}

TEST(Input, RefusesWhatNoImplementationServes) {
  EXPECT_NO_THROW(kernels::check_input({.n = 0, .h = 0, .w = 0}));
  for (const InputSpec& spec :
       {InputSpec{.c = 2, .c_padded = 4}, InputSpec{.c = 3, .c_padded = 5}, InputSpec{.c = 3, .c_padded = 1},
        InputSpec{.n = -1}, InputSpec{.w = 1 << 30}, InputSpec{.n = 1 << 20, .h = 1 << 12}}) {
    EXPECT_THROW(kernels::check_input(spec), std::invalid_argument);
  }
}

}  // namespace
}  // namespace engine::testing
