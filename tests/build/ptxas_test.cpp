// scripts/check_ptxas.py on logs in ptxas's own words.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

std::string entry(const std::string& name, const char* chip, int registers, int spilled, int stack, int shared) {
  return "ptxas info    : Compiling entry function '" + name + "' for '" + chip +
         "'\nptxas info    : Function properties for " + name + "\n    " + std::to_string(stack) +
         " bytes stack frame, " + std::to_string(spilled) + " bytes spill stores, " + std::to_string(spilled / 2) +
         " bytes spill loads\nptxas info    : Used " + std::to_string(registers) + " registers, used 1 barriers, " +
         (shared > 0 ? std::to_string(shared) + " bytes smem, " : "") +
         "400 bytes cmem[0]\nptxas info    : Compile time = 9.430 ms\n";
}

class Ptxas : public ::testing::Test {
 protected:
  void SetUp() override {
    if (system("python3 -c '' >/dev/null 2>&1") != 0) GTEST_SKIP() << "no python3 here";
  }

  void log(const std::string& object, const std::string& text) const {
    std::ofstream(folder_.file(object + ".ptxas")) << "ptxas info    : 0 bytes gmem\n" << text;
  }
  int run(const std::string& arguments) const {
    const std::string command =
        "python3 '" + source_dir() + "/scripts/check_ptxas.py' " + arguments + " >/dev/null 2>&1";
    return WEXITSTATUS(system(("cd '" + folder_.str() + "' && " + command).c_str()));
  }
  nlohmann::json report() const { return nlohmann::json::parse(std::ifstream(folder_.file("ptxas.json"))); }

  TempDir folder_;
};

const std::string kAddFloat =
    "_ZN6engine7kernels50_GLOBAL__N__5da98551_11_add_cuda_cu_6ad845e8_2278118add_forward_"
    "kernelIfLi4EEEvPKT_S5_PS3_l";
const std::string kAddHalf =
    "_ZN6engine7kernels50_GLOBAL__N__5da98551_11_add_cuda_cu_6ad845e8_2278118add_forward_"
    "kernelINS0_4HalfELi8EEEvPKT_S6_PS4_l";

TEST_F(Ptxas, TheWorstOfAllInstantiationsAndChipsCounts) {
  log("a.o", entry(kAddFloat, "sm_80", 38, 0, 0, 0) + entry(kAddHalf, "sm_80", 32, 0, 8, 512) +
                 entry(kAddFloat, "sm_90", 30, 0, 0, 0));
  log("b.o", entry("_Z11fill_kernelPfi", "sm_90", 10, 0, 0, 0) + entry("_ZL12scale_kernelPff", "sm_90", 12, 0, 0, 0));
  ASSERT_EQ(run("--write ptxas.json a.o b.o"), 0);
  const auto kernels = report();
  ASSERT_EQ(kernels.size(), 3u) << kernels;
  EXPECT_EQ(kernels["add_forward_kernel"]["registers"], 38);
  EXPECT_EQ(kernels["add_forward_kernel"]["stack"], 8);
  EXPECT_EQ(kernels["add_forward_kernel"]["shared"], 512);
  EXPECT_EQ(kernels["add_forward_kernel"]["spills"], 0);
  EXPECT_EQ(kernels["fill_kernel"]["registers"], 10);
  EXPECT_EQ(kernels["scale_kernel"]["registers"], 12);
  EXPECT_EQ(run("ptxas.json"), 0);
}

TEST_F(Ptxas, ASpillFails) {
  log("a.o", entry(kAddFloat, "sm_80", 38, 0, 0, 0) + entry(kAddHalf, "sm_100", 255, 16, 24, 0));
  ASSERT_EQ(run("--write ptxas.json a.o"), 0);
  EXPECT_EQ(report()["add_forward_kernel"]["spills"], 24);
  EXPECT_EQ(run("ptxas.json"), 1);
}

TEST_F(Ptxas, AMissingLogOrAnEmptyReportIsAnError) {
  EXPECT_EQ(run("--write ptxas.json a.o"), 1);
  log("a.o", "");
  ASSERT_EQ(run("--write ptxas.json a.o"), 0);
  EXPECT_EQ(run("ptxas.json"), 1);
}

}  // namespace
}  // namespace engine::testing
