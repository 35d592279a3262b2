#pragma once
// Small data sets and pictures for runs of a second.

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace engine::testing {

inline std::string big_endian(uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

/// A digit that can be learnt: a bright bar whose row is its class, on a ground that depends on the index.
inline std::string bar_picture(int64_t index) {
  std::string pixels(28 * 28, static_cast<char>(index % 50));
  const auto row = static_cast<size_t>(index % 10) * 2 + 3;
  pixels.replace(row * 28, 56, 56, static_cast<char>(250));
  return pixels;
}

/// One part of MNIST's format in `folder`, labels 0, 1, ... 9, 0, ...
inline void write_digits(const std::string& folder, const std::string& part, uint32_t count) {
  std::filesystem::create_directories(folder);
  std::string images = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
  std::string labels = big_endian(0x801) + big_endian(count);
  for (uint32_t i = 0; i < count; ++i) {
    images += bar_picture(i);
    labels += static_cast<char>(i % 10);
  }
  std::ofstream(folder + "/" + part + "-images-idx3-ubyte", std::ios::binary) << images;
  std::ofstream(folder + "/" + part + "-labels-idx1-ubyte", std::ios::binary) << labels;
}

inline void write_digits(const std::string& folder, uint32_t train, uint32_t test) {
  write_digits(folder, "train", train);
  write_digits(folder, "t10k", test);
}

/// The picture of an index as a BMP file of 24 bits a pixel.
inline void write_bmp(const std::string& path, int64_t index) {
  constexpr uint32_t kHeader = 54, kSide = 28, kBytes = kSide * kSide * 3;  // rows of 84 bytes need no padding
  const auto little_endian = [](uint32_t value) {
    const std::string big = big_endian(value);
    return std::string(big.rbegin(), big.rend());
  };
  std::string bytes = "BM" + little_endian(kHeader + kBytes) + little_endian(0) + little_endian(kHeader);
  bytes += little_endian(40) + little_endian(kSide) + little_endian(kSide) + std::string("\1\0\x18\0", 4);
  bytes += std::string(24, '\0');
  const std::string pixels = bar_picture(index);
  for (size_t row = kSide; row-- > 0;) {  // from the bottom
    for (size_t column = 0; column < kSide; ++column) bytes += std::string(3, pixels[row * kSide + column]);
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace engine::testing
