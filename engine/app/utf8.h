#pragma once
// UTF-8 (RFC 3629), character by character.

#include <cstdint>
#include <string>
#include <string_view>

namespace engine {

/// Bytes of the well-formed character at the front of `text`; 0 where there is none.
size_t utf8_length(std::string_view text);

/// A code point up to U+10FFFF that is no surrogate, encoded.
std::string utf8_encode(uint32_t code);

}  // namespace engine
