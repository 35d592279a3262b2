#pragma once
// Shared libraries opened while the program runs.

#include <span>
#include <string>

namespace engine::kernels {

struct SharedLibrary {
  void* handle = nullptr;  // never closed
  std::string path;        // of the file that the loader chose
  std::string failure;     // its words, where there is none
};

/// Tries the name on the loader's path and then in `folder` (may be empty).
SharedLibrary open_shared_library(const std::string& name, const std::string& folder);

/// The function's address as a pointer of type Function. Throws LibraryError where the library lacks it.
void* find_symbol(const SharedLibrary& library, const char* name);
template <typename Function>
Function* find_function(const SharedLibrary& library, const char* name) {
  return reinterpret_cast<Function*>(find_symbol(library, name));
}

}  // namespace engine::kernels
