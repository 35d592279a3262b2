#include "data/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace engine::data {
namespace {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int32_t __attribute__((vector_size(16)));

constexpr int kPad = 4;  // a pixel of three channels is read as four values

Float4 load4(const float* p) {
  Float4 value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// Rounds to whole numbers; 0 <= x.
Float4 rounded(Float4 x) { return __builtin_convertvector(__builtin_convertvector(x + 0.5F, Int4), Float4); }

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

void horizontal_rgb(const ResampleTask& task, const ResampleFilter& filter, const float* row, int column, float* out) {
  const Float4 scale = {task.scale[0], task.scale[1], task.scale[2], 0};
  const Float4 shift = {task.shift[0], task.shift[1], task.shift[2], 0};
  for (int64_t x = 0; x < task.width; ++x) {
    const int64_t i = task.flip ? task.width - 1 - x : x;
    const float* pixel = row + 3 * (filter.first(i) - column);
    const float* weights = filter.weights(i);
    Float4 sum = {};
    for (int t = 0; t < filter.taps(i); ++t) sum += weights[t] * load4(pixel + 3 * t);
    const Float4 value = rounded(sum) * scale + shift;
    // The fourth value is overwritten by the next pixel; after a row's last there may be somebody else's memory.
    std::memcpy(out + 3 * x, &value, (x + 1 < task.width ? 4 : 3) * sizeof(float));
  }
}

void horizontal_gray(const ResampleTask& task, const ResampleFilter& filter, const float* row, int column, float* out) {
  for (int64_t x = 0; x < task.width; ++x) {
    const int64_t i = task.flip ? task.width - 1 - x : x;
    const float* pixel = row + (filter.first(i) - column);
    const float* weights = filter.weights(i);
    float sum = 0.5F;
    for (int t = 0; t < filter.taps(i); ++t) sum += weights[t] * pixel[t];
    out[x] = static_cast<float>(static_cast<int>(sum)) * task.scale[0] + task.shift[0];
  }
}

}  // namespace

void ResampleFilter::build(int64_t in_length, int64_t out_length, int64_t begin, int64_t count) {
  const double ratio = static_cast<double>(in_length) / static_cast<double>(out_length);
  const double support = std::max(ratio, 1.0);  // half the triangle's width
  max_taps_ = std::min<int64_t>(static_cast<int64_t>(std::ceil(support)) * 2 + 1, in_length);
  spans_.resize(static_cast<size_t>(count));
  weights_.assign(static_cast<size_t>(count * max_taps_), 0.0F);
  for (int64_t i = 0; i < count; ++i) {
    const double center = (static_cast<double>(begin + i) + 0.5) * ratio;
    const auto low = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto high = std::min(static_cast<int64_t>(center + support + 0.5), in_length);
    const auto weight = [&](int64_t x) {
      return std::max(1.0 - std::abs((static_cast<double>(x) - center + 0.5) / support), 0.0);
    };
    double sum = 0;
    for (int64_t x = low; x < high; ++x) sum += weight(x);
    float* weights = weights_.data() + i * max_taps_;
    for (int64_t x = low; x < high; ++x) weights[x - low] = static_cast<float>(weight(x) / sum);
    auto taps = static_cast<int>(high - low);
    while (taps > 1 && weights[taps - 1] == 0) --taps;
    spans_[static_cast<size_t>(i)] = {static_cast<int>(low), taps};
  }
}

void resample(const ResampleTask& task, ResampleScratch& scratch, float* out) {
  scratch.vertical.build(task.in_height, task.resized_height, task.top, task.height);
  scratch.horizontal.build(task.in_width, task.resized_width, task.left, task.width);
  const ResampleFilter &vertical = scratch.vertical, &horizontal = scratch.horizontal;
  const int column = horizontal.first(0);
  const int64_t columns = horizontal.first(task.width - 1) + horizontal.taps(task.width - 1) - column;
  const int64_t count = columns * task.channels;
  scratch.row.assign(static_cast<size_t>(count + kPad), 0.0F);
  for (int64_t y = 0; y < task.height; ++y) {
    const uint8_t* source = task.source + vertical.first(y) * task.row_bytes + int64_t{column} * task.channels;
    weighted_rows(source, task.row_bytes, vertical.taps(y), vertical.weights(y), count, scratch.row.data());
    float* row = out + y * task.width * task.channels;
    if (task.channels == 3) {
      horizontal_rgb(task, horizontal, scratch.row.data(), column, row);
    } else {
      horizontal_gray(task, horizontal, scratch.row.data(), column, row);
    }
  }
}

}  // namespace engine::data
