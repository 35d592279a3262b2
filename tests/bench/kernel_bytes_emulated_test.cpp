// What kernels move, as checked mode sees it, against the formulas of their headers, which launchers hand to launch()
// and benchmarks to of_copy. The benchmarks are the list of work: no hand-written kernel may be missing from it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "bench/support/device.h"
#include "kernels/emulator/checker.h"
#include "kernels/emulator/emulator.h"
#include "tests/support/accelerator.h"
#include "tests/support/process.h"

namespace engine::testing {
namespace {

namespace fs = std::filesystem;

/// What threads ask for may be this much more than what device memory has to move, at the extents that the emulated
/// device gets: the largest share seen, rounded up. Nothing may move less than its header says.
double most_of_formula(const std::string& kernel) {
  static const std::map<std::string, double> factors{
      // Overlapping windows: 3x3 with stride 2 ask for each element of x 2.25 times, or for grad_y and index as often,
      // and the stem's kernels load the vectors of their channels for a few pixels each. The L1 cache has all that.
      {"max_pool2d_forward_kernel", 1.9},
      {"max_pool2d_backward_kernel", 2.5},
      {"bn_relu_max_pool_forward_kernel", 2.9},
      {"bn_relu_max_pool_backward_sums_kernel", 2},
      {"bn_relu_max_pool_backward_apply_kernel", 2.3},
      // A window's gradient is read by each of its four elements.
      {"avg_pool2d_backward_kernel", 1.25},
      {"global_avg_pool_backward_kernel", 1.2},
      // Threads load the vectors of their channels again for four packs, or for four rows; the caches have them.
      {"batch_norm_apply_kernel", 1.3},
      {"batch_norm_backward_apply_kernel", 1.3},
      {"batch_norm_backward_sums_kernel", 1.3},
      {"batch_norm_statistics_kernel", 1.2},
      {"bias_forward_kernel", 1.2},
      // Rows of more than 1024 classes are read twice, the second time out of the caches.
      {"softmax_cross_entropy_block_kernel", 1.55},
      // The label's logit is read once more, which shows where there are 10.
      {"topk_correct_kernel", 1.25},
      // All four warps of a tensor's block read the step's state and the tensor's description.
      {"lars_ratios_kernel", 4.8},
      // Its blocks read the step's state and the descriptions of their chunks and tensors.
      {"lars_norms_kernel", 1.06},
  };
  const auto found = factors.find(kernel);
  return found != factors.end() ? found->second : 1.05;
}

/// What is used of the sectors that requests touch, at the least; 1 pass for each request to shared memory. The headers
/// say why where it is less than 0.9.
double least_coalescing(const std::string& kernel) {
  static const std::map<std::string, double> shares{
      {"batch_norm_apply_kernel", 0.83},
      {"batch_norm_backward_apply_kernel", 0.83},
      {"batch_norm_backward_sums_kernel", 0.83},
      {"bn_relu_max_pool_forward_kernel", 0.72},
      {"bn_relu_max_pool_backward_sums_kernel", 0.72},
      {"bn_relu_max_pool_backward_apply_kernel", 0.72},
      {"bias_forward_kernel", 0.62},
      {"bias_backward_kernel", 0.62},
      {"lars_ratios_kernel", 0.6},
      {"pad_channels_forward_kernel", 0.58},
      {"pad_channels_backward_kernel", 0.75},
      {"softmax_cross_entropy_warp_kernel", 0.6},
      {"softmax_cross_entropy_block_kernel", 0.75},
      {"softmax_cross_entropy_sum_kernel", 0.15},
      {"topk_correct_kernel", 0.23},
  };
  const auto found = shares.find(kernel);
  return found != shares.end() ? found->second : 0.9;
}

/// Kernels whose headers promise no bytes, because arithmetic limits them.
const std::set<std::string> kBoundByArithmetic{"conv2d_forward_direct_kernel", "conv2d_backward_data_direct_kernel",
                                               "conv2d_backward_weights_direct_kernel"};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Names of the kernels in the sources.
std::set<std::string> kernels_in_sources() {
  static const std::regex kernel("__global__[^{;]*?(\\w+_kernel)\\s*\\(");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / "kernels")) {
    const std::string kind = entry.path().extension().string();
    if (kind != ".cu" && kind != ".h") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), kernel), end; at != end; ++at) names.insert((*at)[1]);
  }
  return names;
}

/// One run of a benchmark's work, watched.
std::vector<emulator::KernelReport> watched(const bench::DeviceWork& work) {
  const emulator::CheckedScope scope;
  bench::device_seconds(work.enqueue, 1, 0);
  for (const emulator::Finding& finding : emulator::findings()) ADD_FAILURE() << finding.text();
  return emulator::kernel_reports();
}

class KernelBytes : public AcceleratorTest {
 protected:
  void SetUp() override {
#ifdef ENGINE_SANITIZED
    GTEST_SKIP() << "no checked mode in sanitizer builds";
#endif
    AcceleratorTest::SetUp();
  }
};

TEST_F(KernelBytes, EqualTheHeadersFormulasAndFillSectors) {
  std::set<std::string> seen;
  for (const bench::DeviceBenchmark& benchmark : bench::device_benchmarks()) {
    SCOPED_TRACE(benchmark.name);
    const bench::DeviceWork work = benchmark.make();
    int64_t promised = 0;
    const std::vector<emulator::KernelReport> kernels = watched(work);
    for (const emulator::KernelReport& kernel : kernels) {
      seen.insert(kernel.name);
      if (kBoundByArithmetic.contains(kernel.name)) continue;
      EXPECT_GE(kernel.coalescing(), least_coalescing(kernel.name)) << kernel.name;
      EXPECT_EQ(kernel.bank_conflicts, 1) << kernel.name;
      EXPECT_TRUE(kernel.header_bytes) << kernel.name << " is launched without bytes";
      if (!kernel.header_bytes) continue;
      promised += *kernel.header_bytes;
      const double share = static_cast<double>(kernel.bytes_used) / static_cast<double>(*kernel.header_bytes);
      EXPECT_GE(share, 0.99) << kernel.name;
      EXPECT_LE(share, most_of_formula(kernel.name)) << kernel.name;
    }
    if (work.bytes == 0) continue;
    // Launchers count partial sums and vectors of channels, too, which are a part of these small tensors.
    EXPECT_GE(promised, work.bytes);
    const double most = kernels.size() == 1 ? 1.2 : 1.5;
    EXPECT_LE(static_cast<double>(promised), most * static_cast<double>(work.bytes));
  }
  for (const std::string& kernel : kernels_in_sources()) {
    EXPECT_TRUE(seen.contains(kernel)) << kernel << " has no benchmark";
  }
  EXPECT_GE(seen.size(), 40U);
}

}  // namespace
}  // namespace engine::testing
