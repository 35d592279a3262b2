#pragma once
// What the rest of the project may know of oneDNN; its types stay behind onednn_api.h.

#include <cstddef>
#include <cstdint>
#include <string>

namespace engine::kernels {

/// Version of the oneDNN library that is loaded: "2.6.3".
std::string onednn_version();

/// Whether the processor multiplies BFloat16 itself (AVX-512 BF16, AMX), as oneDNN sees it: ONEDNN_MAX_CPU_ISA can hide
/// it. Elsewhere oneDNN's kernels for that type are slower than those for floats.
bool onednn_has_bf16();

/// Bytes of scratch memory that convolutions and matrix products hold: oneDNN's scratchpads, reordered weights, tiles
/// of the project's own algorithms. One buffer, grown to the largest call, for each call that runs at once.
int64_t onednn_scratch_bytes();

/// Gives the scratch buffers that no call is using back to the system.
void onednn_release_scratch();

/// A borrowed scratch buffer, aligned to 64 bytes and not initialised, given back at the end of the object's life.
/// Throws std::bad_alloc.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Cuts the next `bytes` off, aligned to 64. The padded() sizes of all pieces must fit the size asked for.
  void* take(size_t bytes);
  float* take_floats(int64_t count) { return static_cast<float*>(take(static_cast<size_t>(count) * sizeof(float))); }

  static constexpr size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }
  static constexpr size_t padded_floats(int64_t count) { return padded(static_cast<size_t>(count) * sizeof(float)); }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
  size_t used_ = 0;
};

}  // namespace engine::kernels
