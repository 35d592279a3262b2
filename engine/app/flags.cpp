#include "engine/app/flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/app/flag_table.h"
#include "engine/app/toml.h"
#include "engine/core/error.h"

namespace engine {
namespace {

[[noreturn]] void refuse(const GivenValue& given, const std::string& expected) {
  std::string got;
  for (const std::string& text : given.texts) got += fmt::format("{}\"{}\"", got.empty() ? "" : " ", escaped(text));
  if (given.texts.empty()) got = "an empty list";
  throw ConfigError(fmt::format("{}: got {}, expected {}", given.where, got, expected));
}

/// The whole text as a number.
template <typename T>
std::optional<T> number_of(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || rest != end || text.empty()) return std::nullopt;
  return value;
}

template <typename T>
T parse_number(const Flag& flag, const GivenValue& given, const std::string& text) {
  const auto value = number_of<T>(text);
  const std::string expected = flag.limits.text(std::is_integral_v<T>);
  if (given.form == ValueForm::string || given.form == ValueForm::boolean || !value) refuse(given, expected);
  if (!std::isfinite(static_cast<double>(*value)) || !flag.limits.contains(static_cast<double>(*value))) {
    refuse(given, expected);
  }
  return *value;
}

/// The elements of a list: several texts, or one with commas.
std::vector<std::string> elements(const GivenValue& given) {
  std::vector<std::string> out;
  for (const std::string& text : given.texts) {
    size_t begin = 0;
    for (size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', begin)) {
      out.push_back(text.substr(begin, comma - begin));
      begin = comma + 1;
    }
    out.push_back(text.substr(begin));
  }
  return out;
}

const std::string& only(const GivenValue& given, const std::string& expected) {
  if (given.texts.size() != 1 || given.texts[0].empty()) refuse(given, expected);
  return given.texts[0];
}

struct Assign {
  const Flag& flag;
  const GivenValue& given;
  Settings& settings;

  void operator()(Member<bool> member) const {
    const std::string& text = only(given, "true or false");
    if (given.form == ValueForm::string || given.form == ValueForm::number || (text != "true" && text != "false")) {
      refuse(given, "true or false");
    }
    member(settings) = text == "true";
  }

  template <typename T>
  void operator()(Member<T> member) const {
    member(settings) = parse_number<T>(flag, given, only(given, flag.limits.text(std::is_integral_v<T>)));
  }

  void operator()(Member<std::optional<double>> member) const {
    member(settings) = parse_number<double>(flag, given, only(given, flag.limits.text(false)));
  }

  void operator()(Member<std::string> member) const {
    std::string expected = "a text that is not empty";
    if (!flag.choices.empty()) expected = fmt::format("{}", fmt::join(flag.choices, ", "));
    const std::string& text = only(given, expected);
    const bool wrong_form =
        (given.form == ValueForm::number && !flag.number_or_word) || given.form == ValueForm::boolean;
    if (wrong_form || text.find('\0') != std::string::npos) refuse(given, expected);
    if (!flag.choices.empty() && std::find(flag.choices.begin(), flag.choices.end(), text) == flag.choices.end()) {
      refuse(given, expected);
    }
    member(settings) = text;
  }

  template <typename T>
  void operator()(Member<std::vector<T>> member) const {
    using Parsed = std::conditional_t<std::is_integral_v<T>, T, double>;
    std::vector<T> values;
    if (given.texts.empty()) refuse(given, "at least one number");
    for (const std::string& text : elements(given)) {
      values.push_back(static_cast<T>(parse_number<Parsed>(flag, given, text)));
    }
    member(settings) = std::move(values);
  }
};

std::string toml_number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(double value) { return toml_number(value); }
std::string toml_text(float value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
std::string toml_text(const std::string& value) { return toml_string(value); }
std::string toml_text(int value) { return std::to_string(value); }
std::string toml_text(int64_t value) { return std::to_string(value); }
std::string toml_text(uint64_t value) { return std::to_string(value); }
std::string toml_text(const std::optional<double>& value) { return value ? toml_number(*value) : ""; }
template <typename T>
std::string toml_text(const std::vector<T>& values) {
  std::string out = "[";
  for (const T value : values) out += (out.size() > 1 ? ", " : "") + toml_text(value);
  return out + "]";
}

template <typename T>
bool is_unset(const T& value) {
  return value == T{};
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const char* name_of(Command command) {
  switch (command) {
    case kTrain:
      return "";
    case kEvaluate:
      return "evaluate";
    case kPredict:
      return "predict";
    case kExport:
      return "export";
    case kInfo:
      return "info";
    case kPlan:
      return "plan";
  }
  throw Error("[app] no such command");
}

bool Limits::contains(double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Limits::text(bool integer) const {
  const std::string noun = integer ? "a whole number" : "a number";
  const std::string lower = low_open ? fmt::format("above {}", low) : fmt::format("from {}", low);
  if (high >= kNoLimit) return fmt::format("{} {}{}", noun, lower, low_open ? "" : " on");
  return fmt::format("{} {} {} {}", noun, lower, high_open ? "and below" : "to", high);
}

const std::vector<Flag>& all_flags() {
  static const std::vector<Flag> flags = make_flag_table();
  return flags;
}

const Flag* find_flag(const std::string& name) {
  const auto& flags = all_flags();
  const auto found = std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

void assign(const Flag& flag, const GivenValue& given, Settings& settings) {
  std::visit(Assign{flag, given, settings}, flag.target);
}

std::optional<std::string> toml_value(const Flag& flag, const Settings& settings) {
  if (flag.applies && !flag.applies(settings.run)) return std::nullopt;
  Settings copy = settings;
  return std::visit(
      [&](auto member) -> std::optional<std::string> {
        const auto& value = member(copy);
        if (flag.optional && is_unset(value)) return std::nullopt;
        return toml_text(value);
      },
      flag.target);
}

std::string suggestion(const std::string& misspelt, unsigned command) {
  const Flag* nearest = nullptr;
  size_t distance = std::max<size_t>(2, misspelt.size() / 3);
  std::string name = misspelt.substr(std::min(misspelt.find_first_not_of('-'), misspelt.size()));
  std::replace(name.begin(), name.end(), '_', '-');
  if (name.size() > 64) return "";
  for (const Flag& flag : all_flags()) {
    if ((flag.commands & command) == 0) continue;
    if (const size_t d = edit_distance(name, flag.name); d < distance) {
      distance = d;
      nearest = &flag;
    }
  }
  return nearest ? fmt::format("did you mean --{}?", nearest->name) : "";
}

}  // namespace engine
