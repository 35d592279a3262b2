#include "engine/core/shape.h"

#include "engine/core/error.h"

namespace engine {

Shape::Shape(std::span<const int64_t> extents) {
  ENGINE_CHECK(extents.size() <= kMaxRank, "[shape] rank: got {}, expected at most {}", extents.size(), kMaxRank);
  int64_t product = 1;
  for (const int64_t extent : extents) {
    ENGINE_CHECK(extent >= 0, "[shape] extent: got {}, expected 0 or more", extent);
    ENGINE_CHECK(!__builtin_mul_overflow(product, extent, &product), "[shape] the number of elements exceeds 2^63");
    extents_[static_cast<size_t>(rank_++)] = extent;
  }
}

int64_t Shape::operator[](int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  ENGINE_CHECK(index >= 0 && index < rank_, "[shape] axis: got {}, expected one of {}", axis, str());
  return extents_[static_cast<size_t>(index)];
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (const int64_t extent : extents()) product *= extent;
  return product;
}

Shape Shape::with(int axis, int64_t extent) const {
  (*this)[axis];
  std::array<int64_t, kMaxRank> changed = extents_;
  changed[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)] = extent;
  return Shape(std::span<const int64_t>(changed.data(), static_cast<size_t>(rank_)));
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(extents(), ", ")); }

}  // namespace engine
