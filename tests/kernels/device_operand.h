#pragma once
// Operands for tests of device kernels: aligned, or one element off, and with the values where formats and comparisons
// differ.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/device.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {

/// A device array that begins `shift` elements behind an aligned address.
template <typename T>
class Operand {
 public:
  Operand(const std::vector<T>& values, size_t shift) : shift_(shift), memory_(shifted(values, shift)) {}
  /// Not a number, and not zero for integers, so that a result that was not written shows.
  Operand(int64_t count, size_t shift)
      : Operand(std::vector<T>(static_cast<size_t>(count), unwritten_value()), shift) {}

  T* data() const { return memory_.data() + shift_; }
  std::vector<T> read() const {
    const std::vector<T> all = memory_.read();
    return {all.begin() + static_cast<std::ptrdiff_t>(shift_), all.end()};
  }
  std::vector<float> floats() const { return as_floats(read()); }

 private:
  static T unwritten_value() {
    if constexpr (std::is_integral_v<T>) {
      return T{77};
    } else {
      return T(std::numeric_limits<float>::quiet_NaN());
    }
  }
  static std::vector<T> shifted(const std::vector<T>& values, size_t shift) {
    std::vector<T> all(shift, T{});
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }

  size_t shift_;
  DeviceArray<T> memory_;
};

/// Values of T, as floats, among them zeros of both signs, infinities, NaN and T's greatest and least.
template <typename T>
std::vector<float> awkward(int64_t count, uint64_t key) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {0.0F,  -0.0F,  kInf,     -kInf,     std::numeric_limits<float>::quiet_NaN(),
                                      65504, -65504, 0x1p-24F, -0x1p-24F, 3e38F};
  std::vector<float> values = uniform<float>(count, key, -4, 4);
  for (size_t i = key % 7; i < values.size(); i += 7) values[i] = special[(i / 7 + key) % special.size()];
  return as_floats(stored<T>(values));
}

/// Equal values, zeros by their sign, too; any NaN equals any.
inline void ExpectSameValues(const std::vector<float>& got, const std::vector<float>& want, const char* what = "") {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same =
        std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i]);
    ASSERT_TRUE(same) << what << " [" << i << "] of " << got.size() << ": got " << got[i] << ", want " << want[i];
  }
}

/// Rounded to T.
template <typename T>
std::vector<float> rounded(const std::vector<float>& values) {
  return as_floats(stored<T>(values));
}

/// Nothing, one element, less and more than an access of 16 bytes, a whole number of blocks, and some of everything.
inline const std::vector<int64_t> kCounts = {0, 1, 2, 7, 8, 13, 2048, 4096, 4099, 20011};

}  // namespace engine::testing
