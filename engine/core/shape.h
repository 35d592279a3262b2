#pragma once
// Extents of a tensor, outermost first.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace engine {

/// Up to six extents, each >= 0. Images are {n, h, w, c}, filters {k, r, s, c / groups}.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  /// Throws engine::Error for a negative extent, a rank above six or a product that does not fit int64.
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  /// The extent of an axis; negative axes count from the end. Throws engine::Error outside the rank.
  int64_t operator[](int axis) const;
  /// Product of all extents; 1 for rank 0.
  int64_t numel() const;
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }
  /// The shape with one extent replaced.
  Shape with(int axis, int64_t extent) const;
  /// "[2, 3]"
  std::string str() const;
  friend bool operator==(const Shape& a, const Shape& b) = default;

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace engine
