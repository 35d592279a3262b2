#include "engine/train/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "engine/core/error.h"
#include "engine/train/checkpoint.h"
#include "engine/train/resume.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace engine::testing {
namespace {

namespace fs = std::filesystem;

/// Writes checkpoints of a tiny run.
class Writer {
 public:
  Writer() : model_(make_tiny_model()), flat_(*model_), optimizer_(make_optimizer({}, flat_)) {}

  void write(const fs::path& path, int64_t step) {
    TrainProgress progress;
    progress.step = step;
    save_checkpoint(path, {model_.get(), &flat_, optimizer_.get(), nullptr}, progress, {"tiny", {"a", "b"}, {}, 7});
  }
  void add(CheckpointFolder& folder, int64_t step, bool is_best, int64_t keep) {
    folder.add(step, is_best, keep, [&](const fs::path& path) { write(path, step); });
  }

 private:
  std::unique_ptr<Module> model_;
  FlatParameters flat_;
  std::unique_ptr<Optimizer> optimizer_;
};

int64_t step_of(const fs::path& path) {
  const SafetensorsFile file = open_checkpoint(path);
  return std::stoll(file.metadata().at("step"));
}

void damage(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-3, std::ios::end);
  file.put('\x55');
  file.put('\x2A');
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) names.insert(item.path().filename().string());
  return names;
}

TEST(Cases, H_REQ_03_KeepsTheBestAndTheLast) {
  const TempDir temp;
  CheckpointFolder folder(temp.path());
  Writer writer;
  const int accuracy[] = {1, 5, 2, 5, 3, 4, 9, 8, 7, 6};
  int best = 0;
  for (int epoch = 1; epoch <= 10; ++epoch) {
    const bool is_best = accuracy[epoch - 1] > best;
    if (is_best) best = accuracy[epoch - 1];
    folder.add(epoch, is_best, 2, [&](const fs::path& path) {
      // Old files go only after the new one is complete.
      EXPECT_EQ(folder.steps().empty(), epoch == 1);
      writer.write(path, epoch);
    });
    EXPECT_EQ(step_of(temp.path() / "last.safetensors"), epoch);
    EXPECT_EQ(step_of(temp.path() / "best.safetensors"), epoch < 2 ? 1 : epoch < 7 ? 2 : 7);
  }
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{7, 9, 10}));
  EXPECT_EQ(files_in(temp.path()),
            (std::set<std::string>{"best.safetensors", "last.safetensors", "checkpoint-step-00000007.safetensors",
                                   "checkpoint-step-00000009.safetensors", "checkpoint-step-00000010.safetensors"}));
}

TEST(CheckpointFolder, FilesOfAPartThatWasGivenUpAreNotTheNewest) {
  const TempDir temp;
  CheckpointFolder folder(temp.path());
  Writer writer;
  for (int64_t step : {2, 4, 6}) writer.add(folder, step, false, 5);
  EXPECT_EQ(folder.newest_whole()->metadata().at("step"), "6");
  // The run went back to step 2 and has come to step 3.
  writer.add(folder, 3, false, 5);
  EXPECT_EQ(folder.newest_whole()->metadata().at("step"), "3");
  // Killed after a file was written, before it was linked as the last.
  writer.write(folder.path_of(5), 5);
  EXPECT_EQ(folder.newest_whole()->metadata().at("step"), "5");
  damage(folder.path_of(5));
  EXPECT_EQ(folder.newest_whole()->metadata().at("step"), "3");
}

TEST(CheckpointFolder, AFailedWriteTakesNothingAway) {
  const TempDir temp;
  CheckpointFolder folder(temp.path());
  Writer writer;
  for (int64_t step : {1, 2, 3}) writer.add(folder, step, step == 1, 3);
  const auto before = files_in(temp.path());
  EXPECT_THROW(folder.add(4, true, 1, [](const fs::path&) { throw OutputError("disk full"); }), OutputError);
  EXPECT_EQ(files_in(temp.path()), before);
  EXPECT_EQ(step_of(temp.path() / "last.safetensors"), 3);
  EXPECT_EQ(step_of(temp.path() / "best.safetensors"), 1);
}

TEST(CheckpointFolder, OnlyItsOwnNamesCount) {
  const TempDir temp;
  const CheckpointFolder folder(temp.path());
  for (const char* name :
       {"checkpoint-step-1.safetensors", "checkpoint-step-0000000x.safetensors",
        "checkpoint-step-00000003.safetensors.bak", ".engine-tmp-checkpoint-step-00000004.safetensors",
        "checkpoint-step--0000005.safetensors", "last.safetensors", "checkpoint-step-.safetensors"}) {
    std::ofstream(temp.file(name)) << "x";
  }
  EXPECT_TRUE(folder.steps().empty());
  EXPECT_FALSE(folder.newest_whole().has_value());
  std::ofstream(temp.file("checkpoint-step-00000012.safetensors")) << "x";
  std::ofstream(temp.file("checkpoint-step-123456789.safetensors")) << "x";
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{12, 123456789}));
  EXPECT_EQ(folder.path_of(42).filename(), "checkpoint-step-00000042.safetensors");
  EXPECT_TRUE(CheckpointFolder(temp.path() / "none").steps().empty());
}

TEST(CheckpointFolder, PassesOverDamagedFilesWithAWarning) {
  const TempDir temp;
  CheckpointFolder folder(temp.path());
  Writer writer;
  for (int64_t step : {1, 2, 3, 4}) writer.add(folder, step, false, 10);
  damage(folder.path_of(4));                 // a byte of the data, seen by the digest
  fs::resize_file(folder.path_of(3), 1000);  // cut short
  const LogCapture log;
  const auto newest = folder.newest_whole();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->metadata().at("step"), "2");
  EXPECT_EQ(log.count(LogLevel::warning), 2);
  EXPECT_EQ(log.count(LogLevel::warning, "checkpoint-step-00000004.safetensors"), 1);
  EXPECT_EQ(log.count(LogLevel::warning, "checkpoint-step-00000003.safetensors"), 1);
}

TEST(CheckpointFolder, ADamagedFileAheadNeverPushesTheNewOneOut) {
  const TempDir temp;
  CheckpointFolder folder(temp.path());
  Writer writer;
  for (int64_t step : {6, 8}) writer.add(folder, step, false, 2);
  damage(folder.path_of(8));
  // The run has gone back to step 6 and keeps one file.
  writer.add(folder, 7, false, 1);
  const auto newest = folder.newest_whole();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->metadata().at("step"), "7");
  writer.add(folder, 8, false, 1);
  EXPECT_EQ(folder.steps(), std::vector<int64_t>{8});
  EXPECT_EQ(folder.newest_whole()->metadata().at("step"), "8");
}

TEST(FindCheckpoint, DoesWhatResumeSays) {
  const TempDir temp;
  CheckpointFolder folder(temp.path());
  Writer writer;
  OutputConfig output;
  output.output_dir = temp.str();
  EXPECT_FALSE(find_checkpoint(output).has_value());
  output.resume = "auto";
  EXPECT_FALSE(find_checkpoint(output).has_value());
  for (int64_t step : {1, 2}) writer.add(folder, step, false, 10);
  EXPECT_EQ(find_checkpoint(output)->metadata().at("step"), "2");
  output.resume = folder.path_of(1).string();
  EXPECT_EQ(find_checkpoint(output)->metadata().at("step"), "1");
  damage(folder.path_of(1));
  ExpectError<CheckpointError>([&] { find_checkpoint(output); }, {"checkpoint-step-00000001.safetensors"});
  output.resume = temp.file("none.safetensors");
  ExpectError<CheckpointError>([&] { find_checkpoint(output); }, {"none.safetensors"});
}

TEST(CheckResumable, WhatMayChangeAndWhatMayNot) {
  const ConfigValues before = {{"lr", "0.1"}, {"epochs", "10"}, {"batch-size", "32"}, {"lr-scheduler", "\"step\""}};
  const auto changed = [&](const std::string& flag, const std::string& value, const std::string& scheduler = "") {
    ConfigValues now = before;
    for (auto& [name, text] : now) {
      if (name == flag) text = value;
      if (name == "lr-scheduler" && !scheduler.empty()) text = scheduler;
    }
    return now;
  };
  const LogCapture log;
  check_resumable(before, before);
  EXPECT_TRUE(log.lines().empty());
  check_resumable(before, changed("epochs", "20"));
  EXPECT_EQ(log.count(LogLevel::info, "--epochs: 20 in place of 10"), 1);
  check_resumable(before, changed("batch-size", "64"));
  EXPECT_EQ(log.count(LogLevel::info, "--batch-size: 64 in place of 32"), 1);
  ExpectError<ConfigError>([&] { check_resumable(before, changed("lr", "0.2")); }, {"--lr", "got 0.2", "expected 0.1"});
  ConfigValues cosine = changed("lr-scheduler", "\"cosine\"");
  ConfigValues longer = cosine;
  longer[1].second = "20";
  ExpectError<ConfigError>([&] { check_resumable(cosine, longer); }, {"--epochs", "got 20", "expected 10"});
}

}  // namespace
}  // namespace engine::testing
