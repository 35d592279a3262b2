#include <gtest/gtest.h>

#include <vector>

#include "kernels/input/input_cuda.h"
#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::InputSpec;

constexpr float kMean[] = {0.485F, 0.456F, 0.406F}, kStd[] = {0.229F, 0.224F, 0.225F};

std::vector<uint8_t> bytes(int64_t count, uint64_t key, double high) {
  std::vector<uint8_t> result;
  for (const float value : uniform<float>(count, key, 0, high)) result.push_back(static_cast<uint8_t>(value));
  return result;
}

template <typename T>
class InputDevice : public DeviceTest {
 protected:
  void expect_reference(InputSpec spec, bool with_flips) {
    spec.pixel = kernels::pixel_scale(kMean, kStd, spec.c);
    const std::vector<uint8_t> pictures = bytes(spec.n * spec.h * spec.w * spec.c, 1, 256);
    const std::vector<uint8_t> flips = bytes(spec.n, 2, 2);
    const DeviceArray<uint8_t> device_pictures(pictures), device_flips(flips);
    const auto count = static_cast<size_t>(spec.n * spec.h * spec.w * spec.c_padded);
    const DeviceArray<T> y(stored<T>(unwritten<float>(static_cast<int64_t>(count))));
    kernels::input_cuda(spec, device_pictures.data(), with_flips ? device_flips.data() : nullptr, y.data(), stream());
    std::vector<float> want(count);
    kernels::input_cpu(spec, pictures.data(), with_flips ? flips.data() : nullptr, want.data());
    ExpectClose(as_floats(y.read()), want, tolerance(kUnitRoundoff<T>, 1, OpClass::elementwise),
                "c " + std::to_string(spec.c) + " padded " + std::to_string(spec.c_padded) + " w " +
                    std::to_string(spec.w) + (with_flips ? " flipped" : ""));
  }
};
TYPED_TEST_SUITE(InputDevice, StorageTypes);

// Rows of one pixel; rows that fill no vector, no warp; tiles that begin in the middle of a vector; rows that are too
// long for shared memory.
TYPED_TEST(InputDevice, FollowsTheReference) {
  for (const int64_t w : {1, 7, 28, 32, 224, 2049}) {
    for (const int c : {1, 3}) {
      for (const int padded : {c, 4, 8}) {
        for (const bool flips : {false, true}) {
          this->expect_reference({.n = 5, .h = w > 1000 ? 1 : 9, .w = w, .c = c, .c_padded = padded}, flips);
        }
      }
    }
  }
}

TYPED_TEST(InputDevice, NoPicture) { this->expect_reference({.n = 0, .h = 4, .w = 4}, true); }

}  // namespace
}  // namespace engine::testing
