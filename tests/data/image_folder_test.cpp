#include "data/image_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "data/dataset.h"
#include "engine/core/log.h"
#include "tests/data/pictures.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

namespace fs = std::filesystem;
using data::DatasetOptions;
using data::DatasetPair;
using data::open_dataset;
using data::scan_folder;
using Names = std::vector<std::string>;

DatasetPair open_folder(const std::string& path, const Names& classes = {}) {
  DatasetOptions options;
  options.kind = "imagefolder";
  options.path = path;
  options.classes = classes;
  return open_dataset(options);
}

/// Collects warnings while it lives.
class Warnings {
 public:
  Warnings() {
    set_log_capture([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) lines.emplace_back(text);
    });
  }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  ~Warnings() { set_log_capture({}); }
  Names lines;
};

/// A folder with train/ and val/ of the given classes, a picture each.
void make_folder(const TempDir& folder, const Names& train, const Names& val) {
  const auto add = [&](const std::string& part, const Names& classes) {
    for (const std::string& name : classes) {
      fs::create_directories(folder.path() / part / name);
      fs::copy_file(case_path("H-IMG-07/control.png"), folder.path() / part / name / "0.png");
    }
  };
  add("train", train);
  add("val", val);
}

TEST(Cases, H_IMG_08_HiddenAndForeignFiles) {
  const DatasetPair pair = open_folder(case_path("H-IMG-08"));
  EXPECT_EQ(pair.classes, (Names{"cat", "dog"}));
  ASSERT_EQ(pair.train->size(), 4);
  EXPECT_EQ(pair.val, nullptr);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(pair.train->label(i), i / 2) << pair.train->name_of(i);
  // .DS_Store twice, Thumbs.db, .git, .ipynb_checkpoints, notes.txt, desktop.ini
  EXPECT_NE(pair.summary.find("2 classes, 4 training and 0 validation"), std::string::npos) << pair.summary;
  EXPECT_NE(pair.summary.find("7 files ignored"), std::string::npos) << pair.summary;
}

TEST(Cases, H_IMG_09_EmptyClassFolder) {
  const TempDir folder;
  make_folder(folder, {"a", "c"}, {});
  fs::create_directories(folder.path() / "train/b");
  expect_data_error([&] { open_folder(folder.str()); }, {"train/b", "without any picture"});
  write_bytes(folder.file("train/b/readme.txt"), {'h', 'i'});
  expect_data_error([&] { open_folder(folder.str()); }, {"train/b", "without any picture"});
  const data::FolderScan scan = scan_folder(folder.file("train"));
  EXPECT_EQ(scan.classes, (Names{"a", "b", "c"}));
  EXPECT_EQ(scan.labels, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(scan.counts, (std::vector<int64_t>{1, 0, 1}));

  const TempDir bare;
  fs::create_directories(bare.path() / "train/a");
  expect_data_error([&] { open_folder(bare.str()); }, {"train", "no picture"});
}

TEST(Cases, H_IMG_09_HandedFolder) {
  const data::FolderScan scan = scan_folder(case_path("H-IMG-09/train"));
  EXPECT_EQ(scan.classes, (Names{"a", "b", "c"}));
  EXPECT_EQ(scan.labels, (std::vector<int64_t>{0, 2}));
  expect_data_error([&] { open_folder(case_path("H-IMG-09")); }, {"H-IMG-09/train/b"});
  EXPECT_EQ(scan_folder(case_path("H-IMG-09/train_only_text")).counts, (std::vector<int64_t>{1, 0}));
}

TEST(Cases, H_IMG_10_OddNames) {
  const DatasetPair pair = open_folder(case_path("H-IMG-10"));
  ASSERT_EQ(pair.train->size(), 13);
  EXPECT_EQ(pair.classes, (Names{"plain", "зверь"}));
  for (int64_t i = 0; i < 13; ++i) EXPECT_EQ(pair.train->load(i).width, 32) << pair.train->name_of(i);
  const data::FolderScan numeric = scan_folder(case_path("H-IMG-10/numeric"));
  EXPECT_EQ(numeric.classes, (Names{"1", "10", "2"}));
  EXPECT_EQ(numeric.labels, (std::vector<int64_t>{0, 1, 2}));
}

TEST(Cases, H_IMG_11_LinksAndLoops) {
  const Warnings warnings;
  const auto begin = std::chrono::steady_clock::now();
  const DatasetPair pair = open_folder(case_path("H-IMG-11"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(pair.classes, (Names{"linked", "plain"}));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < pair.train->size(); ++i) labels.push_back(pair.train->label(i));
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 0, 1, 1}));
  ASSERT_EQ(warnings.lines.size(), 1U);
  EXPECT_NE(warnings.lines[0].find("plain/gone.jpg"), std::string::npos) << warnings.lines[0];
}

TEST(ImageFolder, ValidationTakesTheNumbersOfTraining) {
  const TempDir folder;
  make_folder(folder, {"a", "b", "c"}, {"b", "c"});
  const DatasetPair pair = open_folder(folder.str());
  ASSERT_EQ(pair.val->size(), 2);
  EXPECT_EQ(pair.val->label(0), 1);
  EXPECT_EQ(pair.val->label(1), 2);
}

TEST(ImageFolder, AValidationClassThatTrainingLacksIsAnError) {
  const TempDir folder;
  make_folder(folder, {"a", "b"}, {"a", "x"});
  expect_data_error([&] { open_folder(folder.str()); }, {"val/x", "train/ lacks"});
}

TEST(ImageFolder, ACheckpointsClassesGiveTheNumbers) {
  const TempDir folder;
  make_folder(folder, {"a", "b"}, {"a", "b"});
  const DatasetPair pair = open_folder(folder.str(), {"z", "b", "a"});
  EXPECT_EQ(pair.classes, (Names{"z", "b", "a"}));
  EXPECT_EQ(pair.val->label(0), 2);
  EXPECT_EQ(pair.val->label(1), 1);
  expect_data_error([&] { open_folder(folder.str(), {"a", "c"}); }, {"train/b", "the checkpoint lacks"});
}

TEST(ImageFolder, EvaluationNeedsNoTrainingPart) {
  const TempDir folder;
  make_folder(folder, {}, {"a", "b"});
  DatasetOptions options;
  options.kind = "imagefolder";
  options.path = folder.str();
  options.open_train = false;
  EXPECT_EQ(open_dataset(options).val->size(), 2);
  // With a training part, its classes give the numbers.
  make_folder(folder, {"0", "a", "b"}, {});
  EXPECT_EQ(open_dataset(options).val->label(0), 1);
}

TEST(ImageFolder, MissingPartsAreNamed) {
  const TempDir folder;
  expect_data_error([&] { open_folder(folder.file("none")); }, {"none", "no such folder"});
  expect_data_error([&] { open_folder(folder.str()); }, {"no train/"});
}

TEST(ImageFolder, PicturesBelowSubfoldersBelongToTheClass) {
  const TempDir folder;
  make_folder(folder, {"a", "a/deep/er"}, {});
  const DatasetPair pair = open_folder(folder.str());
  EXPECT_EQ(pair.classes, (Names{"a"}));
  EXPECT_EQ(pair.train->size(), 2);
}

TEST(ImageFolder, FoldersThatLinkToEachOtherEnd) {
  const TempDir folder;
  Names classes;
  for (int i = 0; i < 12; ++i) classes.push_back("c" + std::to_string(i));
  make_folder(folder, classes, {});
  for (const std::string& from : classes) {
    for (const std::string& to : classes) {
      fs::create_directory_symlink(folder.path() / "train" / to, folder.path() / "train" / from / ("to_" + to));
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(scan_folder(folder.file("train")).paths.size(), 12U * 12U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

}  // namespace
}  // namespace engine::testing
