#pragma once
// What the tests of data/ share.

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "data/decode.h"
#include "engine/core/error.h"
#include "tests/support/cases.h"

namespace engine::testing {

using Colour = std::array<int, 3>;

inline std::vector<uint8_t> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::vector<uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path);
}

inline data::Image decode_case(const std::string& name, data::ImageMode mode = data::ImageMode::rgb) {
  data::Image image;
  data::decode_image_file(case_path(name), {mode, data::kDefaultMaxImagePixels}, image);
  return image;
}

inline Colour pixel(const data::Image& image, int x, int y) {
  Colour colour{};
  for (int c = 0; c < image.channels; ++c) {
    colour[static_cast<size_t>(c)] = image.pixels[static_cast<size_t>((y * image.width + x) * image.channels + c)];
  }
  return colour;
}

inline void expect_colour(const Colour& got, const Colour& want, int tolerance, const std::string& what) {
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(got[c], want[c], tolerance) << what << " channel " << c;
}

/// The message and hint of the DataError that `action` throws, which must hold every word and fill one line.
inline std::string expect_data_error(const std::function<void()>& action, std::initializer_list<std::string> words) {
  try {
    action();
  } catch (const DataError& error) {
    const std::string text = error.what() + ("; " + error.hint());
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

}  // namespace engine::testing
