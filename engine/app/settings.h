#pragma once
// What a command of engine_train is told: the values of its flags.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/train/config.h"

namespace engine {

/// Values of flags that belong to one command; those of training are in TrainConfig.
struct CommandSettings {
  std::string config;      // file of flags
  std::string checkpoint;  // evaluate, predict, export
  std::string to;          // export
  std::string gpu;         // plan: a name or a file
  bool json = false;
  bool ema = false;
  bool logits = false;
};

struct Settings {
  TrainConfig run;
  CommandSettings command;
};

/// Where a value was given and what it may be read as.
enum class ValueForm { text, string, number, boolean };  // text: from the command line, may stand for anything

struct GivenValue {
  std::vector<std::string> texts;  // several for lists only
  ValueForm form = ValueForm::text;
  std::string where;  // "command line: --lr" or "configuration: FILE: lr", for messages
  bool from_line = false;
};

/// Flag name without dashes to its value.
using GivenFlags = std::map<std::string, GivenValue>;

}  // namespace engine
