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

void* find_symbol(const SharedLibrary& library, const char* name) {
  void* symbol = dlsym(library.handle, name);
  if (symbol == nullptr) throw LibraryError(library.path + " lacks " + name);
  return symbol;
}

}  // namespace engine::kernels
