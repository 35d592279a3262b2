#include "data/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "data/dataset.h"
#include "data/gzip.h"
#include "tests/data/pictures.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

namespace fs = std::filesystem;
using data::DatasetOptions;
using data::DatasetPair;
using data::open_dataset;
using Bytes = std::vector<uint8_t>;

DatasetPair open_idx(const std::string& path) {
  DatasetOptions options;
  options.kind = "mnist";
  options.path = path;
  return open_dataset(options);
}

void expect_numbered_pictures(const DatasetPair& pair) {
  ASSERT_EQ(pair.train->size(), 200);
  EXPECT_EQ(pair.native_height, 28);
  for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{199}}) {
    const data::Image image = pair.train->load(i);
    ASSERT_EQ(image.channels, 1);
    for (int r = 0; r < 28; ++r) {
      for (int c = 0; c < 28; ++c) ASSERT_EQ(pixel(image, c, r)[0], (7 * i + 3 * r + c) % 256) << i;
    }
  }
}

Bytes idx(std::initializer_list<uint32_t> header, size_t count) {
  Bytes bytes;
  for (const uint32_t word : header) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(word >> shift));
  }
  bytes.resize(bytes.size() + count);
  return bytes;
}

Bytes packed(const Bytes& bytes) {
  Bytes out(bytes.size() + 100);
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Cases, H_IDX_01_DamagedGzip) {
  expect_numbered_pictures(open_idx(case_path("H-IDX-01/good")));
  expect_data_error([] { open_idx(case_path("H-IDX-01/cut")); }, {"train-images-idx3-ubyte.gz", "ends after"});
  expect_data_error([] { open_idx(case_path("H-IDX-01/crc")); },
                    {"train-images-idx3-ubyte.gz", "incorrect data check"});
  expect_data_error([] { open_idx(case_path("H-IDX-01/html")); }, {"train-images-idx3-ubyte.gz", "HTML"});
}

TEST(Cases, H_IDX_02_WrongMagicAndNames) {
  expect_data_error([] { open_idx(case_path("H-IDX-02/swapped")); },
                    {"0x00000801", "0x00000803", "images and labels look swapped"});
  expect_data_error([] { open_idx(case_path("H-IDX-02/little_endian")); }, {"0x03080000", "0x00000803", "reverse"});
  expect_data_error([] { open_idx(case_path("H-IDX-02/float_type")); }, {"0x00000d03", "float"});
  expect_data_error([] { open_idx(case_path("H-IDX-02/short_header")); }, {"6 bytes", "header of 16"});
  expect_numbered_pictures(open_idx(case_path("H-IDX-02/dots")));
}

TEST(Idx, MissingFilesListTheNamesTried) {
  const TempDir folder;
  expect_data_error([&] { open_idx(folder.str()); }, {"train-images-idx3-ubyte", "train-images.idx3-ubyte",
                                                      "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte.gz"});
  write_bytes(folder.file("train-images-idx3-ubyte"), idx({0x803, 1, 2, 2}, 4));
  expect_data_error([&] { open_idx(folder.str()); }, {"labels", "train-labels-idx1-ubyte"});
}

TEST(Idx, APlainFileWinsOverAPackedOne) {
  const TempDir folder;
  Bytes plain = idx({0x803, 1, 1, 1}, 1), other = plain;
  plain.back() = 7;
  write_bytes(folder.file("train-images-idx3-ubyte"), plain);
  write_bytes(folder.file("train-images-idx3-ubyte.gz"), packed(other));
  write_bytes(folder.file("train-labels-idx1-ubyte.gz"), packed(idx({0x801, 1}, 1)));
  EXPECT_EQ(open_idx(folder.str()).train->load(0).pixels, Bytes{7});
}

TEST(Idx, SizesAreCheckedAgainstTheHeader) {
  const Bytes labels = idx({0x801, 2}, 2);
  const auto parse = [&](const Bytes& images) { return data::parse_idx(images, "images", labels, "labels"); };
  EXPECT_EQ(parse(idx({0x803, 2, 3, 4}, 24)).size(), 2);
  expect_data_error([&] { parse(idx({0x803, 2, 3, 4}, 23)); }, {"images", "23 bytes", "2 x 3 x 4"});
  expect_data_error([&] { parse(idx({0x803, 2, 3, 4}, 25)); }, {"25 bytes"});
  expect_data_error([&] { parse(idx({0x803, 3, 2, 2}, 12)); }, {"2 labels", "3"});
  expect_data_error([&] { parse(idx({0x803, 2, 0, 4}, 0)); }, {"extent of 0"});
  // The product is 2^64: it must not wrap around to nothing.
  expect_data_error([&] { parse(idx({0x803, 0x80000000, 0x80000000, 4}, 0)); }, {"0 bytes behind the header"});
}

TEST(Idx, GzipMembersAreJoinedAndJunkIsRefused) {
  const Bytes one = {1, 2, 3}, two = {4, 5};
  Bytes both = packed(one), second = packed(two);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(data::gunzip(both, "x", 100), (Bytes{1, 2, 3, 4, 5}));
  expect_data_error([&] { data::gunzip(both, "x", 4); }, {"more than 4 bytes"});
  both.push_back(0);
  expect_data_error([&] { data::gunzip(both, "x", 100); }, {"1 bytes behind the end"});
}

TEST(Idx, ACheckpointsClassesMayBeMoreButNotFewer) {
  DatasetOptions options;
  options.kind = "mnist";
  options.path = case_path("H-IDX-01/good");
  options.classes = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
  EXPECT_EQ(open_dataset(options).classes, options.classes);
  options.classes.resize(9);
  expect_data_error([&] { open_dataset(options); }, {"10", "9"});
}

TEST(Idx, RgbRepeatsTheGray) {
  DatasetOptions options;
  options.kind = "mnist";
  options.path = case_path("H-IDX-01/good");
  options.mode = data::ImageMode::rgb;
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pixel(pair.train->load(3), 5, 2), (Colour{32, 32, 32}));
  EXPECT_EQ(pair.mean.size(), 3U);
}

}  // namespace
}  // namespace engine::testing
