#include "data/cifar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "data/dataset.h"
#include "tests/data/pictures.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

data::DatasetPair open_cifar(const std::string& kind, const std::string& path) {
  data::DatasetOptions options;
  options.kind = kind;
  options.path = path;
  return data::open_dataset(options);
}

TEST(Cases, H_IDX_03_Cifar10HasFiveFiles) {
  const data::DatasetPair pair = open_cifar("cifar10", case_path("H-IDX-03/cifar-10-batches-bin"));
  ASSERT_EQ(pair.train->size(), 20);
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t batch = i / 4;
    const int red = static_cast<int>(10 * batch + i % 4);
    ++counts[pair.train->label(i)];
    const data::Image image = pair.train->load(i);
    for (const int corner : {0, 31}) EXPECT_EQ(pixel(image, corner, corner), (Colour{red, red + 1, red + 2})) << i;
  }
  EXPECT_EQ(counts, (std::map<int64_t, int>{{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 4}}));
  EXPECT_EQ(pair.val->size(), 3);
  EXPECT_EQ(pair.val->label(0), 9);
  EXPECT_EQ(pair.classes.size(), 10U);
  EXPECT_TRUE(pair.train->name_of(5).ends_with("data_batch_2.bin record 1")) << pair.train->name_of(5);
}

TEST(Cases, H_IDX_03_Cifar100LabelIsFine) {
  const data::DatasetPair pair = open_cifar("cifar100", case_path("H-IDX-03/cifar-100-binary"));
  ASSERT_EQ(pair.train->size(), 20);
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(pair.train->label(i), 99 - i);
    const data::Image image = pair.train->load(i);
    EXPECT_EQ(pixel(image, 0, 0)[0], i);
    EXPECT_EQ(pixel(image, 31, 31)[0], i);
  }
  EXPECT_EQ(pair.val->label(0), 42);
  EXPECT_EQ(pair.classes.size(), 100U);
  EXPECT_TRUE(std::is_sorted(pair.classes.begin(), pair.classes.end()));
}

TEST(Cases, H_IDX_03_SizesAndLabelsAreChecked) {
  data::PictureArray array;
  std::vector<uint8_t> bytes(3073 * 2);
  const auto append = [&](const data::CifarLayout& layout) { data::append_cifar(bytes, "x.bin", layout, array); };
  append(data::kCifar10);
  EXPECT_EQ(array.size(), 2);
  expect_data_error([&] { append(data::kCifar100); }, {"x.bin", "6146 bytes", "3074"});
  bytes[3073] = 10;
  expect_data_error([&] { append(data::kCifar10); }, {"x.bin record 1", "10", "0 to 9"});
  bytes.clear();
  expect_data_error([&] { append(data::kCifar10); }, {"0 bytes"});
}

TEST(Cifar, AMissingFileIsNamed) {
  const TempDir folder;
  expect_data_error([&] { open_cifar("cifar10", folder.str()); }, {"data_batch_1.bin", "No such file"});
}

}  // namespace
}  // namespace engine::testing
