#include "engine/app/toml.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>

#include "engine/app/utf8.h"
#include "engine/core/error.h"

namespace engine {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/// Whether digits stand at both ends and on both sides of each underscore.
bool digits_only(std::string_view text, std::string_view digits) {
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_') {
      if (!after_digit) return false;
      after_digit = false;
    } else {
      if (digits.find(c) == std::string_view::npos) return false;
      after_digit = true;
    }
  }
  return after_digit;
}

std::string without_underscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

/// A scalar that is no string.
struct Scalar {
  TomlKind kind;
  std::string text;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  std::vector<TomlEntry> entries() {
    if (text_.size() > kMaxBytes) fail("more than a MiB", "a configuration");
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    for (skip_blank_lines(); !done(); skip_blank_lines()) {
      entry();
      end_of_line();
    }
    return std::move(entries_);
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  [[noreturn]] void fail(const std::string& got, const std::string& expected) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<int64_t>(std::min(at_, text_.size())), '\n');
    throw ConfigError(
        fmt::format("configuration: {}: line {}: got {}, expected {}", escaped(name_), line, got, expected));
  }
  /// The rest of the line, for messages.
  std::string rest() const {
    if (done()) return "the end of the file";
    const std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
    if (line.empty() || line == "\r") return "the end of the line";
    return fmt::format("\"{}\"", escaped(line.substr(0, 60)));
  }

  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  void skip_comment() {
    if (peek() != '#') return;
    while (!done() && peek() != '\n') take();
  }
  bool skip_newline() {
    if (peek() == '\r' && peek(1) == '\n') ++at_;
    if (peek() != '\n') return false;
    ++at_;
    return true;
  }
  void skip_blank_lines() {
    do {
      skip_spaces();
      skip_comment();
    } while (skip_newline());
  }
  void end_of_line() {
    skip_spaces();
    skip_comment();
    if (!done() && !skip_newline()) fail(rest(), "the end of the line");
  }

  /// The next character, which may be several bytes.
  std::string_view take() {
    const size_t length = utf8_length(text_.substr(at_));
    if (length == 0) fail("ill-formed UTF-8", "UTF-8");
    const char c = peek();
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && !(c == '\r' && peek(1) == '\n')) || c == 0x7F) {
      fail(c == '\n' ? "the end of the line" : "a control character", "text");
    }
    at_ += length;
    return text_.substr(at_ - length, length);
  }

  void entry() {
    if (peek() == '[') fail(rest(), "KEY = VALUE (tables are not used)");
    TomlEntry entry;
    entry.key = key();
    skip_spaces();
    if (peek() == '.') fail(rest(), "= behind the key (dotted keys are not used)");
    if (peek() != '=') fail(rest(), fmt::format("= behind the key {}", escaped(entry.key)));
    ++at_;
    skip_spaces();
    if (peek() == '[') {
      array(entry);
    } else {
      add(entry, value());
    }
    if (!keys_.insert(entry.key).second) fail(fmt::format("{} again", escaped(entry.key)), "each key once");
    entries_.push_back(std::move(entry));
  }

  std::string key() {
    if (peek() == '"' || peek() == '\'') return string();
    const size_t begin = at_;
    while (is_bare(peek())) ++at_;
    if (at_ == begin) fail(rest(), "a key");
    return std::string(text_.substr(begin, at_ - begin));
  }

  void add(TomlEntry& entry, Scalar scalar) {
    if (entry.texts.empty()) {
      entry.kind = scalar.kind;
    } else if (entry.kind != scalar.kind) {
      const auto numeric = [](TomlKind kind) { return kind == TomlKind::integer || kind == TomlKind::number; };
      if (!numeric(entry.kind) || !numeric(scalar.kind)) fail("an array of several types", "an array of one type");
      entry.kind = TomlKind::number;
    }
    entry.texts.push_back(std::move(scalar.text));
  }

  void array(TomlEntry& entry) {
    entry.array = true;
    ++at_;
    for (skip_blank_lines(); peek() != ']'; skip_blank_lines()) {
      if (peek() == '[') fail("an array in an array", "a value");
      add(entry, value());
      skip_blank_lines();
      if (peek() == ']') break;
      if (peek() != ',') fail(rest(), ", or ] in the array");
      ++at_;
    }
    ++at_;
  }

  Scalar value() {
    if (peek() == '"' || peek() == '\'') return {TomlKind::string, string()};
    const size_t begin = at_;
    while (is_bare(peek()) || peek() == '+' || peek() == '.' || peek() == ':') ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "true" || word == "false") return {TomlKind::boolean, std::string(word)};
    if (auto scalar = number(word); !scalar.text.empty()) return scalar;
    at_ = begin;
    fail(rest(), "a quoted string, a number, true or false");
  }

  /// Empty where the word is no number.
  Scalar number(std::string_view word) const {
    constexpr std::string_view kDecimal = "0123456789";
    const bool negative = word.starts_with('-');
    std::string_view body = word.starts_with('-') || word.starts_with('+') ? word.substr(1) : word;
    const std::string sign = negative ? "-" : "";
    if (body == "inf" || body == "nan") return {TomlKind::number, sign + std::string(body)};
    if (body.size() > 2 && body.size() == word.size() && body[0] == '0' &&
        std::string_view("xob").find(body[1]) != std::string_view::npos)
      return based_integer(body);
    if (digits_only(body, kDecimal)) {
      if (body.size() > 1 && body[0] == '0') return {};
      return {TomlKind::integer, sign + without_underscores(body)};
    }
    const size_t exponent = body.find_first_of("eE");
    if (exponent != std::string_view::npos) {
      std::string_view digits = body.substr(exponent + 1);
      if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
      if (!digits_only(digits, kDecimal)) return {};
    }
    const std::string_view mantissa = body.substr(0, exponent);
    const size_t point = mantissa.find('.');
    const std::string_view whole = mantissa.substr(0, point);
    if (!digits_only(whole, kDecimal) || (whole.size() > 1 && whole[0] == '0')) return {};
    if (point != std::string_view::npos && !digits_only(mantissa.substr(point + 1), kDecimal)) return {};
    return {TomlKind::number, sign + without_underscores(body)};
  }

  /// 0x, 0o and 0b.
  static Scalar based_integer(std::string_view word) {
    const int base = word[1] == 'x' ? 16 : word[1] == 'o' ? 8 : 2;
    const std::string_view all = "0123456789abcdef";
    std::string digits = without_underscores(word.substr(2));
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? char(c + 32) : c; });
    if (!digits_only(word.substr(2), "0123456789abcdefABCDEF")) return {};
    if (digits.find_first_not_of(all.substr(0, static_cast<size_t>(base))) != std::string::npos) return {};
    int64_t value = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (failure != std::errc()) return {};
    return {TomlKind::integer, std::to_string(value)};
  }

  std::string string() {
    const char quote = peek();
    if (peek(1) == quote && peek(2) == quote) fail("a string of several lines", "a string of one line");
    ++at_;
    std::string out;
    while (peek() != quote || done()) {
      if (done() || peek() == '\n') fail("the end of the line", fmt::format("{} at the end of the string", quote));
      const std::string_view c = take();
      if (quote == '"' && c == "\\") {
        out += escape();
      } else {
        out += c;
      }
    }
    ++at_;
    return out;
  }

  std::string escape() {
    constexpr std::string_view kNames = "btnfr\"\\", kValues = "\b\t\n\f\r\"\\";
    const char c = peek();
    if (const size_t i = kNames.find(c); i != std::string_view::npos && !done()) {
      ++at_;
      return std::string(1, kValues[i]);
    }
    const size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    const std::string_view hex = text_.substr(std::min(at_ + 1, text_.size()), digits);
    const auto [end, failure] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (digits == 0 || hex.size() < digits || failure != std::errc() || end != hex.data() + digits ||
        !is_scalar(code)) {
      fail(fmt::format("\\{}", rest()), "an escape of TOML behind the backslash");
    }
    at_ += 1 + digits;
    return utf8_encode(code);
  }
  static bool is_scalar(uint32_t code) { return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF); }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  std::vector<TomlEntry> entries_;
  std::set<std::string> keys_;
};

}  // namespace

std::vector<TomlEntry> parse_toml(std::string_view text, const std::string& name) {
  return Reader(text, name).entries();
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    const size_t length = utf8_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += {'\\', text.front()};
    } else if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04X}", c);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out + '"';
}

}  // namespace engine
