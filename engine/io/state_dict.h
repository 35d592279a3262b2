#pragma once
// Tensors of a model or of its training state in safetensors files, under torchvision's names and in its layouts:
// filters [out, in, height, width], columns of a Linear behind a flatten in channel-height-width order. The engine's
// own layouts (filters KRSC, NHWC) are permuted on the way in and out.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/io/safetensors.h"
#include "engine/nn/module.h"

namespace engine {

/// A tensor and its place in a file.
struct FileTensor {
  std::string name;                       ///< torchvision's, without prefix
  Tensor tensor;                          ///< contiguous, on any device; loading writes into it
  FileLayout layout = FileLayout::plain;  ///< in memory, next to that in the file
  int64_t channels = 0;                   ///< of the flattened image, for flattened_linear
  bool optional = false;                  ///< may be missing in a file, and keeps its value then (num_batches_tracked)
};

/// A model's parameters, buffers or optimizer state as file tensors; counters of batches are optional.
std::vector<FileTensor> file_tensors(std::span<const NamedTensor> tensors);
/// All of a model: parameters and buffers.
std::vector<FileTensor> file_tensors(const Module& model);

/// Entries for write_safetensors, names behind `prefix`. They read the tensors' memory, which must live until then,
/// when they are written; only permuted tensors and those of accelerators are copied, one at a time. Throws Error for a
/// tensor that is not contiguous.
std::vector<SafetensorsEntry> file_entries(std::span<const FileTensor> tensors, const std::string& prefix = "");

struct LoadOptions {
  /// Only the file's names behind this are looked at ("model."); "" is all of them.
  std::string prefix{};
  /// Name of the last layer ("fc") if it may be missing or of another size, and is then left as it is; "" if not.
  std::string head{};
};

struct LoadResult {
  int64_t loaded = 0;              ///< tensors read
  int64_t total = 0;               ///< tensors asked for, without optional ones that the file lacks
  std::vector<std::string> reset;  ///< tensors of the head that were left as they are
};

/// Reads every tensor of the list from the file. Strict: names that are missing, unexpected or ill-shaped are all
/// collected first and thrown as one CheckpointError (ten of each and the counts); then nothing has been written into
/// the tensors. A leading "module." in the file's names is dropped with a note in the log. F16, BF16, F32 and F64 are
/// converted to a floating tensor's type, I32 and I64 to i64. Logs "loaded N of M tensors". Loading none is always an
/// error.
LoadResult load_tensors(const SafetensorsFile& file, std::span<const FileTensor> tensors,
                        const LoadOptions& options = {});

}  // namespace engine
