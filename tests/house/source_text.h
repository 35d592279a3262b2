#pragma once
// Just enough of C++'s grammar to measure sources.

#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace engine::testing {

/// The text with comments, strings and character literals blanked; line breaks stay.
inline std::string without_comments_and_strings(std::string_view text) {
  std::string out(text);
  const auto blank = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end && i < out.size(); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  const auto end_of = [&](std::string_view mark, size_t from) {
    const size_t at = text.find(mark, from);
    return at == std::string_view::npos ? text.size() : at + mark.size();
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text.substr(i, 2) == "//") {
      end = text.find('\n', i);
      if (end == std::string_view::npos) end = text.size();
      blank(i, end);
    } else if (text.substr(i, 2) == "/*") {
      end = end_of("*/", i + 2);
      blank(i, end);
    } else if (text.substr(i, 2) == "R\"") {
      const size_t open = text.find('(', i);
      end = end_of(")" + std::string(text.substr(i + 2, open - i - 2)) + "\"", i);
      blank(i, end);
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !isalnum(static_cast<unsigned char>(text[i - 1]))))) {
      while (end < text.size() && text[end] != text[i]) end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      blank(i, end);
    }
    i = end;
  }
  return out;
}

struct FunctionBody {
  std::string head;  // what stands before the brace
  int first_line = 0;
  int lines = 0;  // from the head's last line to the closing brace
};

/// Outermost braced bodies behind a parameter list, wherever they are: in namespaces, classes or at the top.
inline std::vector<FunctionBody> function_bodies(std::string_view source) {
  static const std::regex container("\\b(namespace|class|struct|union|enum|extern)\\b");
  const std::string text = without_comments_and_strings(source);
  std::vector<FunctionBody> found;
  int line = 1, depth = 0, function_depth = 0;
  std::string head;
  for (const char c : text) {
    if (c == '\n') ++line;
    if (c == '{') {
      ++depth;
      const bool is_function = head.find(')') != std::string::npos && !std::regex_search(head, container);
      if (function_depth == 0 && is_function) {
        function_depth = depth;
        found.push_back({head, line, 0});
      }
    } else if (c == '}') {
      if (depth == function_depth && function_depth > 0) {
        found.back().lines = line - found.back().first_line + 1;
        function_depth = 0;
      }
      --depth;
    }
    head = c == '{' || c == '}' || c == ';' ? "" : head + (c == '\n' ? ' ' : c);
  }
  return found;
}

}  // namespace engine::testing
