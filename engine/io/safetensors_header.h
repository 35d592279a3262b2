#pragma once
// The JSON header of a safetensors file, parsed and checked. Inner part of safetensors.h.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/safetensors.h"

namespace engine::detail {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes
  Metadata metadata;
};

/// Throws CheckpointError "cannot read safetensors: PATH: [tensor NAME:] got GOT, expected EXPECTED"; `path` and
/// `tensor` are escaped already.
[[noreturn]] void refuse_safetensors(const std::string& path, const std::string& tensor, const std::string& got,
                                     const std::string& expected);

/// Outside text in a message: escaped, and cut where it is long.
std::string shown(std::string_view text);

/// Parses without a document tree, so that memory stays in proportion to the tensors named. Everything SafetensorsFile
/// promises of a header is checked here; `data_bytes` is what the file has behind it, `path` is for messages.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes, const std::string& path);

/// "F32" and the like.
const char* safetensors_name(DType dtype);

}  // namespace engine::detail
