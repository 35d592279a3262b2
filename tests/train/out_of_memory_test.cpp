// Trainings that do not fit into the memory of the emulated device.

#include <gtest/gtest.h>

#include <regex>

#include "engine/core/emulation.h"
#include "engine/core/memory_shortage.h"
#include "engine/core/stream.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/train/trainer_fixture.h"

namespace engine::testing {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kUsualMemory = int64_t{8} << 30;

/// A device with as much memory as a test says. Only the emulated one can be made small.
class OutOfMemoryTest : public AcceleratorTest {
 protected:
  void SetUp() override {
    AcceleratorTest::SetUp();
    if (kernels::kBuiltWithCuda) GTEST_SKIP() << "a GPU's memory cannot be made small";
  }
  void TearDown() override { set_memory(kUsualMemory); }

  static void set_memory(int64_t bytes) {
    if constexpr (!kernels::kBuiltWithCuda) {
      compute_stream(Device::accelerator()).synchronize();
      release_unused_memory(Device::accelerator());
      set_emulated_memory(bytes);
    }
  }
};

/// One epoch of four steps.
struct DeviceRun : TinyRun {
  DeviceRun(const std::filesystem::path& folder, int64_t batch) : TinyRun(folder.string()) {
    config.batch_size = batch;
    config.accumulate_steps = 1;
    config.epochs = 1;
    source.samples = 4 * batch;
    on_accelerator = true;
  }
};

int64_t number_behind(const std::string& text, const std::string& words) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(text, found, std::regex(words + " ([0-9]+)"))) << text;
  return found.empty() ? 0 : std::stoll(found[1]);
}

TEST_F(OutOfMemoryTest, H_CUDA_03_TellsPhaseAndLargestLayerAndABatchThatFits) {
  const TempDir folder;
  set_memory(24 * kMebibyte);
  int64_t fits = 0;
  try {
    DeviceRun(folder.path() / "large", 1 << 14).run();
    FAIL() << "it fitted";
  } catch (const OutOfMemoryError& error) {
    const std::string message = error.what();
    for (const char* part : {"out of memory", "requested", "in the ", " pass", "at step 1, the first of this run",
                             "largest layer: ", "for a batch of 16384", "in use by this process", "parameters"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    }
    fits = number_behind(error.hint(), "--batch-size");
  }
  EXPECT_GT(fits, 64);
  EXPECT_LT(fits, 1 << 14);
  EXPECT_EQ(DeviceRun(folder.path() / "advised", fits).run().steps, 4);
}

TEST_F(OutOfMemoryTest, H_CUDA_03_TheValidationIsTriedBeforeTheFirstStep) {
  const TempDir folder;
  set_memory(24 * kMebibyte);
  DeviceRun run(folder.path(), 4);
  FakeSource large({.samples = 1 << 17, .batch_size = 1 << 17, .training = false});
  run.held_out = &large;
  ExpectError<OutOfMemoryError>([&] { run.run(); }, {"out of memory", "in the evaluation", "at step 1, the first"});
  EXPECT_TRUE(run.listener.steps.empty());
}

TEST_F(OutOfMemoryTest, H_CUDA_03_AShortageLeavesTheCheckpoints) {
  const TempDir folder;
  DeviceRun(folder.path(), 4).run();
  const std::filesystem::path saved = folder.path() / checkpoint_name(4);
  const std::string before = bytes_of(saved);
  ASSERT_FALSE(before.empty());
  set_memory(24 * kMebibyte);
  DeviceRun more(folder.path(), 1 << 14);
  more.config.epochs = 3;
  more.config.output.resume = "auto";
  EXPECT_THROW(more.run(), OutOfMemoryError);
  EXPECT_EQ(bytes_of(saved), before);
  EXPECT_EQ(bytes_of(folder.path() / "last.safetensors"), before);
}

TEST_F(OutOfMemoryTest, StepsThatDoNotFitBesideRecordedOnesRunUnrecorded) {
  const TempDir folder;
  const auto run = [&](const std::string& name, bool recorded) {
    DeviceRun two_sizes(folder.path() / name, 1 << 11);
    two_sizes.source.samples -= 1 << 10;  // the epoch's last batch is smaller
    two_sizes.config.epochs = 2;
    two_sizes.config.no_cuda_graph = !recorded;
    return two_sizes.run();
  };
  run("roomy", true);
  int64_t enough = 0;
  for (int64_t mebibytes = 2; enough == 0 && mebibytes < 256; mebibytes += 2) {
    set_memory(mebibytes * kMebibyte);
    try {
      run(std::to_string(mebibytes), false);
      enough = mebibytes;
    } catch (const OutOfMemoryError&) {
    }
  }
  ASSERT_GT(enough, 2);
  const LogCapture log;
  EXPECT_EQ(run("tight", true).steps, 8);
  EXPECT_GE(log.count(LogLevel::warning, "unrecorded"), 1);
  EXPECT_EQ(bytes_of(folder.path() / "tight" / checkpoint_name(8)),
            bytes_of(folder.path() / "roomy" / checkpoint_name(8)));
}

TEST(MemoryShortage, NamesTheInnermostPhase) {
  const auto huge = [] { Tensor::empty(Shape{int64_t{1} << 50}, DType::u8, MemoryCategory::activations); };
  const MemoryPhase outer("the forward pass");
  {
    const MemoryPhase inner("the evaluation");
    ExpectError<OutOfMemoryError>(huge, {"for activations in the evaluation"});
  }
  ExpectError<OutOfMemoryError>(huge, {"for activations in the forward pass"});
}

TEST(MemoryShortage, AModelThatDoesNotFitIsNotAdvisedAnotherBatch) {
  try {
    Tensor::empty(Shape{int64_t{1} << 50}, DType::u8, MemoryCategory::optimizer);
    FAIL() << "it fitted";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.hint().find("--batch-size"), std::string::npos) << error.hint();
  }
}

}  // namespace
}  // namespace engine::testing
