#include "data/decode.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/data/pictures.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

using data::decode_image;
using data::DecodeOptions;
using data::Image;
using data::ImageMode;

nlohmann::json expectations() {
  std::ifstream file(case_path("expect.json"));
  return nlohmann::json::parse(file);
}

/// Holds every file of a case against expect.json; returns how many there were.
int check_case(const std::string& id) {
  int files = 0;
  const nlohmann::json expected = expectations();
  for (const auto& [name, want] : expected.items()) {
    if (!name.starts_with(id)) continue;
    ++files;
    if (want["result"] == "reject") {
      expect_data_error([&, path = name] { decode_case(path); }, {name, "got", "expected"});
      continue;
    }
    const Image image = decode_case(name);
    EXPECT_EQ(image.width, want["size"][0]) << name;
    EXPECT_EQ(image.height, want["size"][1]) << name;
    EXPECT_EQ(static_cast<int64_t>(image.pixels.size()), image.bytes()) << name;
    for (const auto& point : want.value("points_x_y_r_g_b", nlohmann::json::array())) {
      expect_colour(pixel(image, point[0], point[1]), {point[2], point[3], point[4]}, want["tolerance"], name);
    }
  }
  return files;
}

/// Leaves other bytes than zero where the next call's local variables will lie.
[[gnu::noinline]] void soil_stack() {
  std::array<volatile uint8_t, 1 << 16> soil;
  for (volatile uint8_t& byte : soil) byte = 0xAB;
}

int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(Cases, H_IMG_01_CmykJpeg) {
  EXPECT_EQ(check_case("H-IMG-01"), 3);
  // Without Adobe's segment the inks are plain: the negative of what inverted inks would give, ink by ink.
  const Image plain = decode_case("H-IMG-01/cmyk_no_marker.jpg");
  ASSERT_EQ(plain.channels, 3);
  const std::array<std::array<int, 2>, 4> centres = {{{8, 4}, {24, 4}, {8, 12}, {24, 12}}};
  const Image inverted = decode_case("H-IMG-01/cmyk_adobe0.jpg");
  for (const auto& [x, y] : centres) EXPECT_NE(pixel(plain, x, y), pixel(inverted, x, y));
}

TEST(Cases, H_IMG_02_ExifOrientationIsIgnored) { EXPECT_EQ(check_case("H-IMG-02"), 11); }

TEST(Cases, H_IMG_03_TruncatedJpeg) {
  EXPECT_EQ(check_case("H-IMG-03"), 8);
  expect_data_error([] { decode_case("H-IMG-03/no_eoi.jpg"); }, {"no_eoi.jpg", "Premature end"});
  EXPECT_EQ(decode_case("H-IMG-03/trailing_junk.jpg").pixels, decode_case("H-IMG-03/control_full.jpg").pixels);
}

TEST(Cases, H_IMG_04_SixteenBitPng) {
  EXPECT_EQ(check_case("H-IMG-04"), 3);
  // Alpha is dropped: the colours are those of the file without it.
  EXPECT_EQ(decode_case("H-IMG-04/rgba16.png").pixels, decode_case("H-IMG-04/gray16.png").pixels);
}

TEST(Cases, H_IMG_05_PalettePng) {
  EXPECT_EQ(check_case("H-IMG-05"), 3);
  EXPECT_EQ(decode_case("H-IMG-05/pal8_trns.png").pixels, decode_case("H-IMG-05/pal8.png").pixels);
  // The last pixel's index, 9, is past the palette: black.
  soil_stack();
  const Image image = decode_case("H-IMG-05/pal_index_out_of_range.png");
  EXPECT_EQ(pixel(image, 3, 0), (Colour{0, 0, 0}));
}

TEST(Cases, H_IMG_06_ContentDecides) {
  EXPECT_EQ(check_case("H-IMG-06"), 6);
  expect_data_error([] { decode_case("H-IMG-06/zero.jpg"); }, {"an empty file"});
  expect_data_error([] { decode_case("H-IMG-06/one_byte.png"); }, {"1 byte"});
  expect_data_error([] { decode_case("H-IMG-06/page.jpg"); }, {"HTML"});
  expect_data_error([] { decode_case("H-IMG-06/webp_head.jpg"); }, {"WebP"});
  expect_data_error([] { decode_case("H-IMG-06/gzipped_jpeg.jpg"); }, {"gzip"});
  EXPECT_EQ(decode_case("H-IMG-06/really_bmp.jpg").channels, 3);
}

TEST(Cases, H_IMG_07_HugeHeaders) {
  const int64_t before = peak_kib();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(check_case("H-IMG-07"), 6);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_LT(peak_kib() - before, 100 * 1024);
  for (const char* name : {"png_60000x60000.png", "jpeg_65500x65500.jpg"}) {
    expect_data_error([&] { decode_case(std::string("H-IMG-07/") + name); }, {"178956970", "--max-image-pixels"});
  }
  // The same limit guards both decoders.
  for (const char* name : {"H-IMG-07/control.png", "H-IMG-01/control_rgb.jpg"}) {
    Image image;
    const std::vector<uint8_t> bytes = bytes_of(case_path(name));
    EXPECT_NO_THROW(decode_image(bytes, name, {ImageMode::rgb, 512}, image)) << name;
    expect_data_error([&] { decode_image(bytes, name, {ImageMode::rgb, 511}, image); }, {name, "32 x 16", "511"});
  }
}

TEST(Cases, H_REQ_04_GrayIsWeightedLuma) {
  for (const char* name : {"H-IMG-01/control_rgb.jpg", "H-IMG-07/control.png", "H-IMG-05/pal8.png",
                           "H-IMG-04/rgba16.png", "H-IMG-04/gray16.png", "H-IMG-06/really_bmp.jpg"}) {
    const Image colour = decode_case(name), gray = decode_case(name, ImageMode::gray);
    ASSERT_EQ(gray.channels, 1) << name;
    ASSERT_EQ(gray.pixels.size() * 3, colour.pixels.size()) << name;
    for (int y = 0; y < gray.height; ++y) {
      for (int x = 0; x < gray.width; ++x) {
        const Colour c = pixel(colour, x, y);
        EXPECT_NEAR(pixel(gray, x, y)[0], (299 * c[0] + 587 * c[1] + 114 * c[2]) / 1000.0, 1) << name;
      }
    }
  }
}

TEST(Decode, EveryCutOfAFileIsRefused) {
  for (const char* name : {"H-IMG-01/control_rgb.jpg", "H-IMG-01/cmyk_adobe0_prog.jpg", "H-IMG-07/control.png",
                           "H-IMG-05/pal2_packed.png", "H-IMG-06/really_bmp.jpg"}) {
    const std::vector<uint8_t> bytes = bytes_of(case_path(name));
    Image image;
    for (size_t length = 0; length < bytes.size(); ++length) {
      const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_THROW(decode_image(cut, name, {}, image), DataError) << name << " cut at " << length;
    }
  }
}

TEST(Decode, ADamagedPngIsRefused) {
  std::vector<uint8_t> bytes = bytes_of(case_path("H-IMG-07/control.png"));
  bytes[bytes.size() - 20] ^= 1;  // in IDAT's checksum or data
  Image image;
  expect_data_error([&] { decode_image(bytes, "flip.png", {}, image); }, {"flip.png", "checksum of IDAT"});
}

TEST(Decode, ABmpIndexPastItsPaletteIsBlack) {
  // 2 x 1 pixels of 8 bits, a palette of one entry (blue 1, green 2, red 3), indices 0 and 7.
  std::vector<uint8_t> bytes = {'B', 'M', 62, 0, 0, 0, 0, 0, 0, 0, 58, 0, 0, 0, 40, 0, 0, 0, 2, 0, 0,
                                0,   1,   0,  0, 0, 1, 0, 8, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0, 0, 0,
                                0,   0,   0,  0, 1, 0, 0, 0, 0, 0, 0,  0, 1, 2, 3,  0, 0, 7, 0, 0};
  Image image;
  soil_stack();
  decode_image(bytes, "two.bmp", {}, image);
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{3, 2, 1, 0, 0, 0}));
}

TEST(Decode, AnUnreadableFileSaysWhy) {
  const TempDir folder;
  Image image;
  expect_data_error([&] { data::decode_image_file(folder.file("none.jpg"), {}, image); },
                    {"none.jpg", "No such file or directory"});
  expect_data_error([&] { data::decode_image_file(folder.str(), {}, image); }, {"a folder"});
  expect_data_error([&] { data::decode_image_file(folder.file("line\nbreak.jpg"), {}, image); }, {"line\\nbreak"});
}

TEST(Decode, TheFileLimitIsNoFaultOfThePicture) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const std::string path = case_path("H-IMG-07/control.png");
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string message;
  bool skippable = false;
  try {
    Image image;
    data::decode_image_file(path, {}, image);
  } catch (const DataError&) {
    skippable = true;
  } catch (const Error& error) {
    message = error.what() + error.hint();
    EXPECT_EQ(error.code(), ExitCode::data);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(skippable);
  EXPECT_NE(message.find("control.png"), std::string::npos) << message;
  EXPECT_NE(message.find("ulimit -n"), std::string::npos) << message;
}

TEST(Image, KeepsNoHugeBuffer) {
  Image image;
  image.reshape(4000, 6000, 3);
  image.reshape(10, 10, 3);
  EXPECT_LT(image.pixels.capacity(), size_t{1} << 20);
}

}  // namespace
}  // namespace engine::testing
