#include "kernels/emulator/checker_shadow.h"

#include <algorithm>
#include <bit>

namespace emulator {

Shadow::Shadow(uintptr_t begin, size_t bytes)
    : origin_(begin / kPageBytes * kPageBytes), pages_((begin - origin_ + bytes + kPageBytes - 1) / kPageBytes) {}

void Shadow::refine(Page& page, size_t bytes) {
  const auto shift = static_cast<unsigned>(std::countr_zero(bytes));
  const size_t count = kPageBytes >> shift;
  auto finer = std::make_unique<Cell[]>(count);
  if (page.cells != nullptr) {
    for (size_t i = 0; i < count; ++i) finer[i] = page.cells[i >> (page.shift - shift)];
  }
  page.cells = std::move(finer);
  page.shift = shift;
}

void Shadow::merge(uintptr_t address) {
  Page& page = pages_[(address - origin_) / kPageBytes];
  if (page.cells == nullptr || page.shift == kPageShift) return;
  auto one = std::make_unique<Cell[]>(1);
  one[0] = page.cells[0];
  page.cells = std::move(one);
  page.shift = kPageShift;
}

void Shadow::clear() {
  for (Page& page : pages_) page = {};
}

}  // namespace emulator
