#include "kernels/permute/permute.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/numeric.h"

namespace engine::testing {
namespace {

using kernels::permute_channels_first_cpu;
using kernels::permute_channels_last_cpu;

TEST(Permute, KnownValues) {
  // Two filters of 1x2 pixels and three channels.
  const std::vector<float> last = {0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112};
  const std::vector<float> first = {0, 10, 1, 11, 2, 12, 100, 110, 101, 111, 102, 112};
  std::vector<float> got(12);
  permute_channels_first_cpu(last.data(), got.data(), 2, 2, 3);
  EXPECT_EQ(got, first);
  permute_channels_last_cpu(first.data(), got.data(), 2, 2, 3);
  EXPECT_EQ(got, last);
}

template <typename T>
void expect_definition(int64_t outer, int64_t spatial, int64_t channels) {
  const int64_t count = outer * spatial * channels;
  std::vector<T> x(static_cast<size_t>(count)), y(x.size()), back(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<float>(i % 2048));
  permute_channels_first_cpu(x.data(), y.data(), outer, spatial, channels);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i % channels, p = i / channels % spatial, o = i / channels / spatial;
    const auto got = static_cast<float>(y[static_cast<size_t>((o * channels + c) * spatial + p)]);
    ASSERT_EQ(got, static_cast<float>(x[static_cast<size_t>(i)]));
  }
  permute_channels_last_cpu(y.data(), back.data(), outer, spatial, channels);
  ExpectSameBits(back, x);
}

TEST(Permute, AnyExtents) {
  const int64_t shapes[][3] = {{64, 49, 3}, {10, 26 * 26, 32}, {1, 1, 1}, {5, 1, 17},
                               {3, 9, 1},   {2, 33, 15},       {0, 4, 4}};
  for (const auto& [outer, spatial, channels] : shapes) {
    expect_definition<float>(outer, spatial, channels);
    expect_definition<double>(outer, spatial, channels);
    expect_definition<kernels::Half>(outer, spatial, channels);
    expect_definition<kernels::BFloat16>(outer, spatial, channels);
  }
}

}  // namespace
}  // namespace engine::testing
