#pragma once
// The input files of the handed cases: tests/cases/hand.tar.gz, unpacked once a process into a temporary folder.

#include <string>
#include <string_view>

namespace engine::testing {

/// The path of a file or folder of the cases, e.g. case_path("H-IMG-04/gray16.png"). The files may be read only: what a
/// test writes goes into a TempDir. Throws std::runtime_error where the archive cannot be unpacked.
std::string case_path(std::string_view name);

/// The path of a file or folder of the source tree, e.g. source_path("data/samples").
std::string source_path(std::string_view name);

}  // namespace engine::testing
