#pragma once
// What this binary was built from; CMake fills in build_info.cpp.in.

namespace engine::build {

extern const char* const kVersion;   // "0.1.0"
extern const char* const kType;      // "Release"
extern const char* const kCompiler;  // "GNU 12.2.0"

}  // namespace engine::build
