#pragma once
// Files of one JSON object a line (https://jsonlines.org), such as metrics.jsonl, that can be followed while they grow.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace engine {

using JsonValue = std::variant<int64_t, double, std::string, bool>;
using JsonField = std::pair<std::string, JsonValue>;

/// The text as a JSON string with its quotes. Ill-formed UTF-8 becomes U+FFFD.
std::string json_quoted(std::string_view text);

/// The object on one line, without the line break, fields in the order given. Doubles have as many digits as give the
/// same double back, and a point or an exponent, so that they stay fractions for a reader; NaN and the infinities,
/// which JSON does not have, are null.
std::string json_object(std::span<const JsonField> fields);

/// Appends to such a file. Each line goes to the kernel whole in one write, so a kill loses or cuts at most the last.
class JsonLines {
 public:
  /// Opens or creates the file; a last line that has no line break (left by a kill) is cut off. Throws OutputError.
  explicit JsonLines(std::filesystem::path path);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  /// Throws OutputError, for example on a full disk; then no part of the line is left in the file.
  void append(std::span<const JsonField> fields);
  void append(std::initializer_list<JsonField> fields) { append(std::span(fields.begin(), fields.size())); }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace engine
