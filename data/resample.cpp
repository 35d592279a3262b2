#include "data/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace engine::data {
namespace {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int32_t __attribute__((vector_size(16)));

/// Rows that go through the horizontal pass together and share its weights.
constexpr int kRowsAtOnce = 4;

Float4 load4(const float* p) {
  Float4 value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// Rounds to whole numbers; 0 <= x.
Int4 rounded(Float4 x) { return __builtin_convertvector(x + 0.5F, Int4); }

/// Results in float: normalised.
struct NormalizedPixels {
  explicit NormalizedPixels(const ResampleTask& task) {
    for (int c = 0; c < task.channels; ++c) {
      scale[c] = task.scale[c];
      shift[c] = task.shift[c];
    }
  }
  void store_rgb(Int4 pixel, bool last, float* out) const {
    const Float4 value = __builtin_convertvector(pixel, Float4) * scale + shift;
    // The fourth value is overwritten by the next pixel; after a row's last there may be somebody else's memory.
    if (last) {
      std::memcpy(out, &value, 3 * sizeof(float));
    } else {
      std::memcpy(out, &value, 4 * sizeof(float));
    }
  }
  void store_gray(int pixel, float* out) const { *out = static_cast<float>(pixel) * scale[0] + shift[0]; }

  Float4 scale{}, shift{};
};

/// Results in bytes.
struct BytePixels {
  explicit BytePixels(const ResampleTask&) {}
  void store_rgb(Int4 pixel, bool, uint8_t* out) const {
    for (int c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(pixel[c]);
  }
  void store_gray(int pixel, uint8_t* out) const { *out = static_cast<uint8_t>(pixel); }
};

template <typename T>
using Pixels = std::conditional_t<std::is_same_v<T, float>, NormalizedPixels, BytePixels>;

template <int kRows, bool kAccumulate>
void add_rows(const uint8_t* source, int64_t row_bytes, const float* weights, int64_t count, float* __restrict row) {
  std::array<const uint8_t*, kRows> rows;
  std::array<float, kRows> w;
  for (int t = 0; t < kRows; ++t) {
    rows[static_cast<size_t>(t)] = source + t * row_bytes;
    w[static_cast<size_t>(t)] = weights[t];
  }
  for (int64_t i = 0; i < count; ++i) {
    float sum = kAccumulate ? row[i] : 0.0F;
    for (size_t t = 0; t < kRows; ++t) sum += w[t] * static_cast<float>(rows[t][i]);
    row[i] = sum;
  }
}

/// row = sum over taps of weight * source row.
void weighted_rows(const uint8_t* source, int64_t row_bytes, int taps, const float* weights, int64_t count,
                   float* row) {
  constexpr std::array kFirst = {add_rows<1, false>, add_rows<2, false>, add_rows<3, false>, add_rows<4, false>};
  constexpr std::array kMore = {add_rows<1, true>, add_rows<2, true>, add_rows<3, true>, add_rows<4, true>};
  for (int t = 0; t < taps; t += 4) {
    const auto rows = static_cast<size_t>(std::min(4, taps - t));
    (t == 0 ? kFirst : kMore)[rows - 1](source + t * row_bytes, row_bytes, weights + t, count, row);
  }
}

/// One block of rows on its way through the horizontal pass.
template <typename T>
struct RowBlock {
  const float* rows;  // from source column `column` on, padded with zeros
  int64_t stride;     // of rows
  int column;
  T* out;
  int64_t out_stride;
};

template <int kRows, typename T>
void horizontal_rgb(const ResampleTask& task, const ResampleFilter& filter, const RowBlock<T>& block) {
  const Pixels<T> pixels(task);
  const int64_t width = task.width, taps = filter.max_taps(), stride = block.stride, out_stride = block.out_stride;
  for (int64_t x = 0; x < width; ++x) {
    const int64_t i = task.flip ? width - 1 - x : x;
    const float* pixel = block.rows + 3 * (filter.first(i) - block.column);
    const float* weights = filter.weights(i);
    Float4 sums[kRows] = {};
    for (int64_t t = 0; t < taps; ++t) {
      for (int r = 0; r < kRows; ++r) sums[r] += weights[t] * load4(pixel + r * stride + 3 * t);
    }
    T* out = block.out + 3 * x;
    for (int r = 0; r < kRows; ++r, out += out_stride) pixels.store_rgb(rounded(sums[r]), x + 1 == width, out);
  }
}

template <typename T>
void horizontal_gray(const ResampleTask& task, const ResampleFilter& filter, const RowBlock<T>& block) {
  const Pixels<T> pixels(task);
  for (int64_t x = 0; x < task.width; ++x) {
    const int64_t i = task.flip ? task.width - 1 - x : x;
    const float* pixel = block.rows + (filter.first(i) - block.column);
    const float* weights = filter.weights(i);
    float sum = 0.5F;
    for (int t = 0; t < filter.taps(i); ++t) sum += weights[t] * pixel[t];
    pixels.store_gray(static_cast<int>(sum), block.out + x);
  }
}

template <typename T>
void resample_to(const ResampleTask& task, ResampleScratch& scratch, T* out) {
  scratch.vertical.build(task.in_height, task.resized_height, task.top, task.height);
  scratch.horizontal.build(task.in_width, task.resized_width, task.left, task.width);
  const ResampleFilter &vertical = scratch.vertical, &horizontal = scratch.horizontal;
  const int column = horizontal.first(0);
  const int64_t count = int64_t{horizontal.end() - column} * task.channels;
  // Weights of zero reach past the last column, and a pixel of three channels is read as four values.
  const int64_t stride = count + horizontal.max_taps() * task.channels + 1;
  const int64_t at_once = task.channels == 3 ? kRowsAtOnce : 1, out_stride = task.width * task.channels;
  scratch.rows.assign(static_cast<size_t>(stride * at_once), 0.0F);
  for (int64_t y = 0; y < task.height; y += at_once) {
    const int64_t rows = std::min(at_once, task.height - y);
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* source = task.source + vertical.first(y + r) * task.row_bytes + int64_t{column} * task.channels;
      weighted_rows(source, task.row_bytes, vertical.taps(y + r), vertical.weights(y + r), count,
                    scratch.rows.data() + r * stride);
    }
    RowBlock<T> block{scratch.rows.data(), stride, column, out + y * out_stride, out_stride};
    if (task.channels == 1) {
      horizontal_gray(task, horizontal, block);
    } else if (rows == kRowsAtOnce) {
      horizontal_rgb<kRowsAtOnce>(task, horizontal, block);
    } else {
      for (int64_t r = 0; r < rows; ++r, block.rows += stride, block.out += out_stride) {
        horizontal_rgb<1>(task, horizontal, block);
      }
    }
  }
}

}  // namespace

void ResampleFilter::build(int64_t in_length, int64_t out_length, int64_t begin, int64_t count) {
  const double ratio = static_cast<double>(in_length) / static_cast<double>(out_length);
  const double support = std::max(ratio, 1.0);  // half the triangle's width
  stride_ = std::min(static_cast<int64_t>(std::ceil(2 * support)) + 1, in_length);
  max_taps_ = 1;
  spans_.resize(static_cast<size_t>(count));
  weights_.assign(static_cast<size_t>(count * stride_), 0.0F);
  for (int64_t i = 0; i < count; ++i) {
    const double center = (static_cast<double>(begin + i) + 0.5) * ratio;
    const auto low = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto high = std::min(static_cast<int64_t>(center + support + 0.5), in_length);
    const auto weight = [&](int64_t x) {
      return std::max(1.0 - std::abs((static_cast<double>(x) - center + 0.5) / support), 0.0);
    };
    double sum = 0;
    for (int64_t x = low; x < high; ++x) sum += weight(x);
    float* weights = weights_.data() + i * stride_;
    for (int64_t x = low; x < high; ++x) weights[x - low] = static_cast<float>(weight(x) / sum);
    auto taps = static_cast<int>(high - low);
    while (taps > 1 && weights[taps - 1] == 0) --taps;
    max_taps_ = std::max<int64_t>(max_taps_, taps);
    spans_[static_cast<size_t>(i)] = {static_cast<int>(low), taps};
  }
}

void resample(const ResampleTask& task, ResampleScratch& scratch, float* out) { resample_to(task, scratch, out); }
void resample(const ResampleTask& task, ResampleScratch& scratch, uint8_t* out) { resample_to(task, scratch, out); }

}  // namespace engine::data
