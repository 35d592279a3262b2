#pragma once
// What engine_train does, one function a command. Each returns the exit code or throws one of the engine's errors.

#include "engine/app/command_line.h"

namespace engine {

int train_command(const CommandLine& line);
int evaluate_command(const CommandLine& line);
int predict_command(const CommandLine& line);
int export_command(const CommandLine& line);
int info_command(const CommandLine& line);
int plan_command(const CommandLine& line);

}  // namespace engine
