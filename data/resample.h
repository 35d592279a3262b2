#pragma once
// Antialiased bilinear resampling, as Pillow's Image.resize(BILINEAR) defines it: a triangle filter whose support grows
// with the ratio where the picture shrinks, cut off at the source's edges and normalised. Pillow rounds to 8 bits after
// the horizontal and after the vertical pass; here the vertical pass comes first, in float, and the result alone is
// rounded, so that a pixel differs from Pillow's by at most one step of 255.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace engine::data {

/// Which source pixels make up each of a run of output pixels, along one axis.
class ResampleFilter {
 public:
  /// Output pixels [begin, begin + count) of an axis that goes from `in_length` to `out_length` pixels.
  void build(int64_t in_length, int64_t out_length, int64_t begin, int64_t count);

  int64_t size() const { return static_cast<int64_t>(spans_.size()); }
  int first(int64_t i) const { return spans_[static_cast<size_t>(i)].first; }
  int taps(int64_t i) const { return spans_[static_cast<size_t>(i)].taps; }
  /// max_taps() weights, those from taps(i) on zero.
  const float* weights(int64_t i) const { return weights_.data() + i * stride_; }
  int64_t max_taps() const { return max_taps_; }
  /// The source pixels that any output pixel has a weight for: [first(0), end()).
  int end() const { return spans_.back().first + spans_.back().taps; }

 private:
  struct Span {
    int first, taps;
  };
  int64_t max_taps_ = 0, stride_ = 0;
  std::vector<Span> spans_;
  std::vector<float> weights_;  // [size(), stride_]
};

/// Memory that resample() reuses.
struct ResampleScratch {
  ResampleFilter vertical, horizontal;
  std::vector<float> rows;
};

struct ResampleTask {
  const uint8_t* source = nullptr;  // first pixel of the rectangle; what lies outside of it has no influence
  int64_t row_bytes = 0;            // from one source row to the next
  int channels = 0;                 // 1 or 3, interleaved
  int64_t in_height = 0, in_width = 0;
  int64_t resized_height = 0, resized_width = 0;
  /// The part of the resized picture that is wanted; the rest costs nothing.
  int64_t top = 0, left = 0, height = 0, width = 0;
  bool flip = false;             // mirrors the wanted part left to right
  const float* scale = nullptr;  // [channels], for results in float
  const float* shift = nullptr;  // [channels]
};

/// Writes [height, width, channels] values x * scale + shift to `out`, x the resampled pixel rounded to 0..255.
void resample(const ResampleTask& task, ResampleScratch& scratch, float* out);
/// The same with x itself.
void resample(const ResampleTask& task, ResampleScratch& scratch, uint8_t* out);

}  // namespace engine::data
