#pragma once
// Results on standard output.

#include <string_view>

namespace engine {

/// Writes and flushes. Throws OutputError where not all of it could be written.
void print(std::string_view text);

}  // namespace engine
