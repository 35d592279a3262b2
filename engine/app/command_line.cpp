#include "engine/app/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "engine/core/error.h"

namespace engine {
namespace {

constexpr int kMostListItems = 64;
constexpr Command kCommands[] = {kTrain, kEvaluate, kPredict, kExport, kInfo, kPlan};

/// The command that the first word names; kTrain where it names none.
Command command_of(std::span<const std::string> words) {
  for (const Command command : kCommands) {
    if (!words.empty() && command != kTrain && words[0] == name_of(command)) return command;
  }
  return kTrain;
}

/// CLI11 would take the next word as the value of "--flag=", and the next flag as the value of "--flag".
void check_values_present(std::span<const std::string> words, Command command) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) continue;
    const size_t equals = word.find('=');
    const Flag* flag = find_flag(word.substr(2, equals == std::string::npos ? equals : equals - 2));
    if (flag == nullptr || (flag->commands & command) == 0) continue;
    const bool bare = equals == std::string::npos;
    const bool nothing_follows = i + 1 == words.size() || words[i + 1].starts_with("--");
    if ((!bare && equals + 1 == word.size()) || (bare && !flag->is_toggle() && nothing_follows)) {
      throw ConfigError(fmt::format("command line: --{}: got no value, expected one", flag->name));
    }
  }
}

[[noreturn]] void refuse_flag(const std::string& word, Command command) {
  const std::string name = word.substr(0, word.find('='));
  throw ConfigError(fmt::format("command line: {}: got an unknown flag, expected one of --help", escaped(name)),
                    suggestion(name, command));
}

[[noreturn]] void refuse_argument(const std::string& word) {
  const bool is_command = command_of(std::span(&word, 1)) != kTrain;
  throw ConfigError(fmt::format("command line: got \"{}\", expected a flag", escaped(word)),
                    is_command ? "the command's name goes first" : "see --help");
}

/// One command's flags as CLI11 options.
class Parser {
 public:
  explicit Parser(Command command) : app_("", "engine_train"), command_(command) {
    app_.allow_extras();
    app_.set_help_flag("-h,--help");
    app_.set_version_flag("--version", std::string("engine_train"));
    for (const Flag& flag : all_flags()) {
      if ((flag.commands & command) != 0) add(flag);
    }
  }

  CommandLine parse(std::span<const std::string> words) {
    CommandLine line;
    line.command = command_;
    const size_t flags_end = static_cast<size_t>(std::find(words.begin(), words.end(), "--") - words.begin());
    const auto behind = words.subspan(std::min(flags_end + 1, words.size()));
    words = words.first(flags_end);
    check_values_present(words, command_);
    try {
      app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::CallForHelp&) {
      line.request = Request::help;
      return line;
    } catch (const CLI::CallForVersion&) {
      line.request = Request::version;
      return line;
    } catch (const CLI::ParseError& failure) {
      throw ConfigError(fmt::format("command line: {}", escaped(failure.what())));
    }
    line.arguments = arguments(app_.remaining(), behind);
    for (const auto& [name, option] : options_) {
      if (option->count() == 0) continue;
      std::vector<std::string> texts = option->results();
      if (!find_flag(name)->is_list()) texts = {texts.back()};
      line.flags[name] = {std::move(texts), ValueForm::text, "command line: --" + name, true};
    }
    return line;
  }

 private:
  /// What is left of the words before "--", and those behind it. CLI11's own positional arguments are not used: they
  /// take names in brackets apart.
  std::vector<std::string> arguments(std::vector<std::string> left, std::span<const std::string> behind) const {
    for (const std::string& word : left) {
      if (word.starts_with("-") && word.size() > 1) refuse_flag(word, command_);
    }
    left.insert(left.end(), behind.begin(), behind.end());
    if (command_ != kPredict && !left.empty()) refuse_argument(left[0]);
    return left;
  }

  void add(const Flag& flag) {
    const std::string name = "--" + flag.name;
    CLI::Option* option = nullptr;
    if (flag.is_toggle()) {
      option = app_.add_flag(name)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      option = app_.add_option(name, values_[flag.name])->allow_extra_args(false);
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      // Where pictures follow, a list must not swallow them: it is one word with commas.
      option->expected(1, flag.is_list() && command_ != kPredict ? kMostListItems : 1);
    }
    options_.emplace(flag.name, option);
  }

  CLI::App app_;
  Command command_;
  std::map<std::string, std::vector<std::string>> values_;
  std::map<std::string, CLI::Option*> options_;
};

}  // namespace

CommandLine parse_command_line(std::span<const std::string> words) {
  const Command command = command_of(words);
  return Parser(command).parse(words.subspan(command == kTrain ? 0 : 1));
}

}  // namespace engine
