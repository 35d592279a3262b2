#pragma once
// cuDNN and cuBLASLt are looked up when they are first needed, so that a program starts, says what is missing, and does
// everything else on a machine that lacks them. Searched, in this order: the loader's path (LD_LIBRARY_PATH, the
// program's run path, the system's), then the folder that the build found them in.

#include <stdexcept>
#include <string>

#include "kernels/common/device.h"

namespace engine::kernels {

/// A library of NVIDIA's that is missing or of a version that does not fit, or a call that it refused. The message
/// names the library and the versions or the library's own words.
class LibraryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the build was made for and what was found. Versions are dotted ("9.19.0"); all empty in builds for the emulated
/// device.
struct LibraryVersion {
  std::string built;
  std::string loaded;
  std::string path;
};

/// Throw LibraryError where the library is missing, or where the loaded one is older in its minor version than the one
/// that the build saw or differs in the major. The emulated device needs no library: never throws there.
LibraryVersion cudnn_version();
LibraryVersion cublaslt_version();

}  // namespace engine::kernels
