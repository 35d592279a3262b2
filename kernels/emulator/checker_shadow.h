#pragma once
// What the checker remembers about memory: per piece of an allocation, who wrote it last and who has read it since.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace emulator {

/// Accesses of one kind to a cell. A phase of 0 is none.
struct Track {
  uint32_t phase = 0;  // of the last one
  uint32_t lanes = 0;  // of its warp, that did it in this phase and had not met
  uint32_t other = 0;  // phase of the last one by another block of the same operation
  uint32_t thread : 10 = 0;
  uint32_t several_warps : 1 = 0;  // in this phase
  uint32_t atomic : 1 = 0;
  uint32_t erased : 1 = 0;  // a write that leaves nothing: memory given out or back
  uint32_t time : 19 = 0;   // of the last one's warp
};

struct Cell {
  Track write, read;     // reads since the last write
  uint32_t readers = 0;  // earlier operations that read, too, if nothing orders them (ReaderSets)
  uint16_t write_site = 0, read_site = 0;
};

/// Cells of a range of addresses, each as large as the accesses that it has seen allow: 1 byte to 1 KiB. Untouched
/// pages have none.
class Shadow {
 public:
  static constexpr unsigned kPageShift = 10;
  static constexpr size_t kPageBytes = size_t{1} << kPageShift;

  Shadow() = default;
  Shadow(uintptr_t begin, size_t bytes);

  /// Cells of an access inside of the range: bytes a power of two up to kPageBytes, address a multiple of it.
  std::span<Cell> cells(uintptr_t address, size_t bytes) {
    const size_t offset = address - origin_, in_page = offset % kPageBytes;
    Page& page = pages_[offset / kPageBytes];
    if ((size_t{1} << page.shift) > bytes || page.cells == nullptr) refine(page, bytes);
    return {page.cells.get() + (in_page >> page.shift), bytes >> page.shift};
  }
  /// A page whose cells are all alike gets one cell again.
  void merge(uintptr_t address);
  void clear();

  /// Calls visit(address, bytes) for pieces of a range as cells() takes them.
  template <typename Visit>
  static void pieces(uintptr_t address, size_t bytes, Visit visit) {
    while (bytes > 0) {
      size_t piece = kPageBytes;
      while (piece > bytes || address % piece != 0) piece /= 2;
      visit(address, piece);
      address += piece;
      bytes -= piece;
    }
  }

 private:
  struct Page {
    std::unique_ptr<Cell[]> cells;
    unsigned shift = kPageShift;  // cells of 2^shift bytes
  };
  static void refine(Page& page, size_t bytes);

  uintptr_t origin_ = 0;
  std::vector<Page> pages_;
};

}  // namespace emulator
