#include "engine/profile/kernel_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "engine/core/emulation.h"
#include "kernels/add/add_cuda.h"
#include "tests/support/device.h"

namespace engine::testing {
namespace {

class KernelReportFile : public DeviceTest {};

TEST_F(KernelReportFile, HasWhatTheHeaderPromisesBesideWhatWasUsed) {
#ifdef ENGINE_SANITIZED
  GTEST_SKIP() << "no checked mode in sanitizer builds";
#endif
  constexpr size_t kCount = 4096;
  const DeviceArray<float> a(std::vector<float>(kCount, 1)), b(std::vector<float>(kCount, 2)), y(kCount);
  start_kernel_check();
  for (int i = 0; i < 2; ++i) kernels::add_forward_cuda(a.data(), b.data(), y.data(), kCount, stream());
  const auto kernels = nlohmann::json::parse(kernel_report("")).at("kernels");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].at("name"), "add_forward_kernel");
  EXPECT_EQ(kernels[0].at("launches"), 2);
  EXPECT_EQ(kernels[0].at("header_bytes"), 2 * 3 * 4 * kCount);
  EXPECT_EQ(kernels[0].at("bytes_used"), 2 * 3 * 4 * kCount);
}

}  // namespace
}  // namespace engine::testing
