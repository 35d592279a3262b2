#pragma once
// The part of TOML 1.0 (https://toml.io/en/v1.0.0) that a configuration needs: one flat table of strings, numbers,
// booleans and arrays of them. CLI11's own reader is not used: it knows no escapes and ends strings at a '#'.

#include <string>
#include <string_view>
#include <vector>

namespace engine {

enum class TomlKind { string, integer, number, boolean };

struct TomlEntry {
  std::string key;
  TomlKind kind =
      TomlKind::string;  // of the value, or of an array's elements; a mix of integers and numbers is numbers
  bool array = false;
  std::vector<std::string> texts;  // strings without quotes and escapes, decimal numbers, "true" or "false"
};

/// The entries in the file's order. Throws ConfigError "configuration: NAME: line N: got X, expected Y" for what is no
/// TOML, for tables, dotted keys, dates and strings of several lines, and for a key that comes twice.
std::vector<TomlEntry> parse_toml(std::string_view text, const std::string& name);

/// A basic string with its quotes. Ill-formed UTF-8, which TOML cannot hold, becomes U+FFFD.
std::string toml_string(std::string_view text);

}  // namespace engine
