// --fusion: where it applies, where it is written down, what it makes of a plan.

#include <gtest/gtest.h>

#include "engine/app/command_line.h"
#include "engine/app/options.h"
#include "tests/support/accelerator.h"
#include "tests/support/process.h"

namespace engine::testing {
namespace {

using Texts = std::vector<std::string>;

std::string written_down(const Texts& words) {
  const CommandLine line = parse_command_line(words);
  for (const auto& [name, value] : values_in_force(resolve(line.flags, line.command))) {
    if (name == "fusion") return value;
  }
  return "";
}

class FusionFlag : public AcceleratorTest {};

TEST_F(FusionFlag, IsWrittenDownForAccelerators) {
  const std::string device = kernels::kBuiltWithCuda ? "cuda" : "emulated";
  EXPECT_EQ(written_down({"--device", device}), "\"auto\"");
  EXPECT_EQ(written_down({"--device", device, "--fusion", "on"}), "\"on\"");
  EXPECT_EQ(written_down({"--device", "cpu"}), "");
}

TEST(FusionFlagOfTheBinary, IsShownAndChecked) {
  const ProcessResult help = run_engine({"--help"});
  EXPECT_NE(help.out.find("--fusion auto|on|off"), std::string::npos);
  const ProcessResult wrong = run_engine({"plan", "--gpu", "h200", "--fusion", "maybe"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--fusion: got \"maybe\", expected"), std::string::npos) << wrong.err;
}

TEST(FusionFlagOfTheBinary, ChangesAPlan) {
  const auto planned = [](const std::string& gpu, const std::string& fusion) {
    const ProcessResult plan = run_engine(
        {"plan", "--gpu", gpu, "--model", "resnet50", "--batch-size", "8", "--precision", "fp16", "--fusion", fusion});
    EXPECT_EQ(plan.code, 0) << plan.err;
    return plan.out;
  };
  const auto has = [](const std::string& text, const char* form) { return text.find(form) != std::string::npos; };
  EXPECT_FALSE(has(planned("h200", "off"), "statistics"));
  EXPECT_TRUE(has(planned("h200", "auto"), "add_norm_backward"));
  EXPECT_FALSE(has(planned("a100", "auto"), "norm_backward"));
  EXPECT_TRUE(has(planned("a100", "on"), "norm_backward"));
}

}  // namespace
}  // namespace engine::testing
