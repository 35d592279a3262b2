#pragma once
// The one table of engine_train's flags: names, tasks, limits, help, and the member each one sets. The command line,
// configuration files, --help, config.toml and the checks all walk it.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/app/settings.h"

namespace engine {

/// Commands as bits, so that a flag can belong to several.
enum Command : unsigned { kTrain = 1, kEvaluate = 2, kPredict = 4, kExport = 8, kInfo = 16, kPlan = 32 };

/// The name on the command line: "" for training.
const char* name_of(Command command);

/// An interval of admissible numbers.
struct Limits {
  double low;
  double high;
  bool low_open = false;
  bool high_open = false;
  bool contains(double value) const;
  /// "a number from 0 on", for messages.
  std::string text(bool integer) const;
};

template <typename T>
using Member = T& (*)(Settings&);

using Target = std::variant<Member<bool>, Member<int>, Member<int64_t>, Member<uint64_t>, Member<double>,
                            Member<std::optional<double>>, Member<std::string>, Member<std::vector<float>>,
                            Member<std::vector<int64_t>>>;

struct Flag {
  std::string name;  // without dashes
  Target target;
  std::string help;
  std::string shown_default = {};  // in --help; empty: none
  std::string metavar = {};        // in --help, e.g. "FILE"; empty: by type or choices
  Limits limits = {0, 0};          // of numbers
  std::vector<std::string> choices = {};
  unsigned commands = kTrain;
  bool number_or_word = false;                    // a text that may stand in a file as a number, too
  bool optional = false;                          // "", 0 and {} mean "not given" and are not written down
  bool (*applies)(const TrainConfig&) = nullptr;  // whether it has an effect; absent: always
  std::string task = {};

  bool is_toggle() const { return std::holds_alternative<Member<bool>>(target); }
  bool is_list() const {
    return std::holds_alternative<Member<std::vector<float>>>(target) ||
           std::holds_alternative<Member<std::vector<int64_t>>>(target);
  }
};

/// All flags in the order of --help; those of a task stand together.
const std::vector<Flag>& all_flags();
/// nullptr where there is none.
const Flag* find_flag(const std::string& name);

/// Reads a given value into its member. Throws ConfigError "WHERE: got X, expected Y".
void assign(const Flag& flag, const GivenValue& given, Settings& settings);

/// The value in force as TOML text; none where the flag has no effect or is not given.
std::optional<std::string> toml_value(const Flag& flag, const Settings& settings);

/// The flag whose name is nearest to a misspelt one, as a hint: "did you mean --lr?", or "".
std::string suggestion(const std::string& misspelt, unsigned command);

}  // namespace engine
