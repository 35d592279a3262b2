#pragma once
// Whole files in memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace engine::data {

/// Bytes that nobody has zeroed before they were written.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(size_t size) : data_(std::make_unique_for_overwrite<uint8_t[]>(size)), size_(size) {}
  uint8_t* data() { return data_.get(); }
  size_t size() const { return size_; }
  std::span<const uint8_t> span() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0;
};

/// Reads a regular file. Throws DataError "[file] cannot read: PATH: ..." with the system's reason; where the limit of
/// open files is hit, which is no fault of the file, an Error that is none.
Bytes read_file(const std::string& path);

}  // namespace engine::data
