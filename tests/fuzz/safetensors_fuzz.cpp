// The safetensors front door: any bytes give a file or a CheckpointError.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/error.h"
#include "engine/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = engine::SafetensorsFile::from_memory(std::as_bytes(std::span(data, size)), "input");
    for (const engine::TensorInfo& info : file.tensors()) {
      std::vector<std::byte> bytes(info.bytes());
      file.read(info, bytes);
    }
    file.verify_sha256();
  } catch (const engine::CheckpointError&) {
  }
  return 0;
}
