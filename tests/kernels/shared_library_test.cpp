#include "kernels/common/shared_library.h"

#include <gtest/gtest.h>

#include "kernels/common/library_handles.h"
#include "tests/support/errors.h"

namespace engine::kernels {
namespace {

using engine::testing::ExpectError;

const LibraryNeed kNeed{"cuDNN", 91900};

TEST(SharedLibraries, AreFoundWithTheirPath) {
  const SharedLibrary library = open_shared_library("libm.so.6", "");
  ASSERT_NE(library.handle, nullptr) << library.failure;
  EXPECT_TRUE(library.path.starts_with('/') && library.path.ends_with("/libm.so.6")) << library.path;
  EXPECT_DOUBLE_EQ(find_function<double(double)>(library, "cbrt")(27.0), 3);
  ExpectError<LibraryError>([&] { find_symbol(library, "no_such_function"); }, {"libm.so.6", "no_such_function"});
  const std::string folder = library.path.substr(0, library.path.rfind('/'));
  EXPECT_NE(open_shared_library("./libm.so.6", folder).handle, nullptr);
}

TEST(Cases, H_CUDA_02_AMissingLibraryIsANamedError) {
  const SharedLibrary library = open_shared_library("libcudnn_of_another_world.so.9", "/no/such/folder");
  EXPECT_EQ(library.handle, nullptr);
  ExpectError<LibraryError>([&] { require_found(kNeed, library); },
                            {"cuDNN is missing", "libcudnn_of_another_world.so.9", "expected 9.19.0 or a later 9.x"});
}

TEST(Cases, H_CUDA_02_ALibraryOfAnotherVersionIsANamedError) {
  SharedLibrary library;
  library.path = "/some/libcudnn.so.9";
  for (const size_t loaded : {91899u, 90100u, 81900u, 100000u, 0u}) {
    ExpectError<LibraryError>([&] { require_version(kNeed, library, loaded); },
                              {"cuDNN does not fit", "got " + dotted_version(loaded), "/some/libcudnn.so.9", "9.19.0"});
  }
  for (const size_t loaded : {91900u, 91901u, 92800u}) require_version(kNeed, library, loaded);
}

}  // namespace
}  // namespace engine::kernels
