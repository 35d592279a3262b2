#include "engine/profile/occupancy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"
#if defined(ENGINE_CUDA)
#include <cuda_occupancy.h>
#endif

namespace engine::testing {
namespace {

double occupancy_of(int registers, int block, int64_t shared = 0) {
  return occupancy({.registers = registers, .shared = shared}, block);
}

// The figures are those of NVIDIA's own calculator (cuda_occupancy.h of CUDA 13.0) for compute capability 9.0.
TEST(Occupancy, IsLimitedByRegisters) {
  EXPECT_EQ(occupancy_of(32, 256), 1.0);
  EXPECT_EQ(occupancy_of(33, 256), 0.75);
  EXPECT_EQ(occupancy_of(40, 256), 0.75);
  EXPECT_EQ(occupancy_of(64, 256), 0.5);
  EXPECT_EQ(occupancy_of(80, 256), 0.375);
  EXPECT_EQ(occupancy_of(255, 256), 0.125);
  EXPECT_EQ(occupancy_of(40, 128), 0.75);
  EXPECT_EQ(occupancy_of(72, 96), 27.0 / 64);
}

TEST(Occupancy, IsLimitedByBlocksAndWarps) {
  EXPECT_EQ(occupancy_of(16, 32), 0.5);
  EXPECT_EQ(occupancy_of(16, 33), 1.0);
  EXPECT_EQ(occupancy_of(16, 768), 0.75);
  EXPECT_EQ(occupancy_of(16, 1024), 1.0);
}

TEST(Occupancy, IsLimitedBySharedMemory) {
  EXPECT_EQ(occupancy_of(16, 256, 27 * 1024), 1.0);
  EXPECT_EQ(occupancy_of(16, 256, 27 * 1024 + 600), 0.875);
  EXPECT_EQ(occupancy_of(16, 128, 48 * 1024), 0.25);
  EXPECT_EQ(occupancy_of(16, 256, 32329), 0.75);  // given out in portions; seven blocks would fit without
}

TEST(Occupancy, IsZeroWhereABlockCannotRun) {
  EXPECT_EQ(occupancy_of(16, 0), 0.0);
  EXPECT_EQ(occupancy_of(16, 1025), 0.0);
  EXPECT_EQ(occupancy_of(256, 32), 0.0);
  EXPECT_EQ(occupancy_of(72, 1024), 0.0);
  EXPECT_EQ(occupancy_of(16, 32, 228 * 1024), 0.0);
}

#if defined(ENGINE_CUDA)
TEST(Occupancy, IsThatOfNvidiasCalculator) {
  cudaOccDeviceProp chip;
  chip.computeMajor = 9;
  chip.computeMinor = 0;
  chip.maxThreadsPerBlock = 1024;
  chip.maxThreadsPerMultiprocessor = 2048;
  chip.regsPerBlock = chip.regsPerMultiprocessor = 65536;
  chip.warpSize = 32;
  chip.sharedMemPerBlock = 48 * 1024;
  chip.sharedMemPerMultiprocessor = 228 * 1024;
  chip.numSms = 132;
  chip.sharedMemPerBlockOptin = 227 * 1024;
  chip.reservedSharedMemPerBlock = 1024;
  cudaOccDeviceState state;
  state.carveoutConfig = 100;
  for (int registers = 1; registers <= 255; ++registers) {
    for (const int block : {1, 32, 33, 64, 96, 128, 160, 192, 224, 256, 384, 512, 768, 1024}) {
      for (const int shared : {0, 1, 128, 129, 1000, 5000, 16384, 27648, 27649, 32329, 40000, 49152}) {
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = static_cast<size_t>(shared);
        cudaOccResult result{};
        ASSERT_EQ(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &chip, &kernel, &state, block, 0), CUDA_OCC_SUCCESS);
        ASSERT_EQ(occupancy_of(registers, block, shared),
                  result.activeBlocksPerMultiprocessor * ((block + 31) / 32) / 64.0)
            << registers << " registers, " << block << " threads, " << shared << " bytes";
      }
    }
  }
}
#endif

TEST(KernelResources, AreReadBesideTheBinaryOrAbove) {
  const TempDir folder;
  EXPECT_TRUE(read_kernel_resources(folder.str()).empty());
  std::filesystem::create_directory(folder.file("bin"));
  std::ofstream(folder.file("ptxas.json"))
      << R"({"relu_forward_kernel": {"registers": 31, "spills": 4, "stack": 8, "shared": 16, "architectures": []}})";
  for (const char* place : {"", "bin"}) {
    const auto kernels = read_kernel_resources(folder.file(place));
    ASSERT_EQ(kernels.size(), 1u) << place;
    const KernelResources& kernel = kernels.at("relu_forward_kernel");
    EXPECT_EQ(kernel.registers, 31);
    EXPECT_EQ(kernel.spills, 4);
    EXPECT_EQ(kernel.stack, 8);
    EXPECT_EQ(kernel.shared, 16);
  }
}

TEST(KernelResources, OfADamagedFileAreNone) {
  const TempDir folder;
  for (const char* text : {"", "{", "[1]", "3", R"({"a_kernel": 1})", R"({"a_kernel": {"registers": "many"}})"}) {
    std::ofstream(folder.file("ptxas.json")) << text;
    EXPECT_TRUE(read_kernel_resources(folder.str()).empty()) << text;
  }
}

}  // namespace
}  // namespace engine::testing
