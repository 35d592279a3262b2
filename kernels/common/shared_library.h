#pragma once
// Shared libraries opened while the program runs.

#include <cstddef>
#include <string>

namespace engine::kernels {

struct SharedLibrary {
  void* handle = nullptr;  // never closed
  std::string path;        // of the file that the loader chose
  std::string failure;     // its words, where there is none
};

/// Tries the name on the loader's path and then in `folder` (may be empty).
SharedLibrary open_shared_library(const std::string& name, const std::string& folder);

/// "9.19.0" for 91900.
std::string dotted_version(size_t version);

/// What a build needs of a library: versions are numbers like 91900 for 9.19.0.
struct LibraryNeed {
  std::string title;  // "cuDNN"
  size_t built = 0;   // what the build saw
};
/// Throw LibraryError where the library was not found; where what it says of itself differs in the first number or is
/// below in the second. The messages name path and versions.
void require_found(const LibraryNeed& need, const SharedLibrary& library);
void require_version(const LibraryNeed& need, const SharedLibrary& library, size_t loaded);

/// The function's address as a pointer of type Function. Throws LibraryError where the library lacks it.
void* find_symbol(const SharedLibrary& library, const char* name);
template <typename Function>
Function* find_function(const SharedLibrary& library, const char* name) {
  return reinterpret_cast<Function*>(find_symbol(library, name));
}

}  // namespace engine::kernels
