// Tests find their files in a bundle that lies elsewhere than it was built.

#include "tests/support/test_data.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

class TestData : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("ENGINE_TEST_DATA"); }
};

TEST_F(TestData, IsTheSourceTreeOfTheBuild) {
  unsetenv("ENGINE_TEST_DATA");
  EXPECT_TRUE(std::filesystem::exists(test_data_dir() + "/tests/golden"));
  EXPECT_TRUE(std::filesystem::exists(engine_program()));
}

TEST_F(TestData, IsWhatTheEnvironmentNames) {
  const TempDir elsewhere;
  setenv("ENGINE_TEST_DATA", elsewhere.str().c_str(), 1);
  EXPECT_EQ(test_data_dir(), elsewhere.str());
  EXPECT_EQ(golden_path("some.file"), std::filesystem::path(elsewhere.str()) / "tests/golden/some.file");
}

}  // namespace
}  // namespace engine::testing
