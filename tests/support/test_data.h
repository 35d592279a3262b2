#pragma once
// Where tests find files and programs, also in a bundle that was built elsewhere.

#include <string>

namespace engine::testing {

/// The folder that tests/golden and tests/cases lie in: what the environment variable ENGINE_TEST_DATA names, else the
/// source tree that the test was built from, else, where that is gone, test-data beside the folder of the test program.
std::string test_data_dir();

/// engine_train: the one beside the test program, else the one of the build.
std::string engine_program();

}  // namespace engine::testing
