#include "kernels/common/shared_library.h"

#include <dlfcn.h>

#include "kernels/common/library_handles.h"

namespace engine::kernels {
namespace {

std::string path_of(void* handle, const std::string& name) {
  char folder[4096];
  if (dlinfo(handle, RTLD_DI_ORIGIN, folder) != 0) return name;
  return std::string(folder) + "/" + name;
}

}  // namespace

SharedLibrary open_shared_library(const std::string& name, const std::string& folder) {
  SharedLibrary library;
  library.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library.handle == nullptr) {
    library.failure = dlerror();
    if (!folder.empty()) library.handle = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
  if (library.handle != nullptr) library.path = path_of(library.handle, name);
  return library;
}

std::string dotted_version(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void require_found(const LibraryNeed& need, const SharedLibrary& library) {
  if (library.handle != nullptr) return;
  throw LibraryError(need.title + " is missing: " + library.failure + ", expected " + dotted_version(need.built) +
                     " or a later " + std::to_string(need.built / 10000) + ".x");
}

void require_version(const LibraryNeed& need, const SharedLibrary& library, size_t loaded) {
  if (loaded / 10000 == need.built / 10000 && loaded / 100 >= need.built / 100) return;
  throw LibraryError(need.title + " does not fit this build: got " + dotted_version(loaded) + " in " + library.path +
                     ", expected " + dotted_version(need.built) + " or a later " + std::to_string(need.built / 10000) +
                     ".x");
}

void* find_symbol(const SharedLibrary& library, const char* name) {
  void* symbol = dlsym(library.handle, name);
  if (symbol == nullptr) throw LibraryError(library.path + " lacks " + name);
  return symbol;
}

}  // namespace engine::kernels
