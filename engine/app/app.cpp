#include "engine/app/app.h"

#include <cstdio>
#include <exception>
#include <new>

#include "engine/app/command_line.h"
#include "engine/app/commands.h"
#include "engine/app/help.h"
#include "engine/app/standard_output.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "kernels/common/cuda_error.h"
#include "kernels/common/library_handles.h"

namespace engine {
namespace {

int dispatch(const CommandLine& line) {
  if (line.request == Request::help) {
    print(help_text(line.command));
    return 0;
  }
  if (line.request == Request::version) {
    print(version_text());
    return 0;
  }
  switch (line.command) {
    case kTrain:
      return train_command(line);
    case kEvaluate:
      return evaluate_command(line);
    case kPredict:
      return predict_command(line);
    case kExport:
      return export_command(line);
    case kInfo:
      return info_command(line);
    case kPlan:
      return plan_command(line);
  }
  throw Error("[app] no such command");
}

/// Whatever a message holds, it stays one line and moves no cursor.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return text;
}

int report(const std::string& message, ExitCode code) noexcept {
  try {
    log_error("engine_train: error: {}", one_line(message));
  } catch (...) {
    std::fputs("engine_train: error: memory: got none to print the error, expected some\n", stderr);
  }
  return static_cast<int>(code);
}

}  // namespace

int run_app(std::span<const std::string> words) {
  try {
    return dispatch(parse_command_line(words));
  } catch (const Error& error) {
    const std::string hint = error.hint().empty() ? "" : "; " + error.hint();
    return report(error.what() + hint, error.code());
  } catch (const kernels::CudaError& error) {
    const bool memory = error.code() == cudaErrorMemoryAllocation;
    return report(memory ? fmt::format("out of memory: device: {}: got no more, expected enough; use a smaller "
                                       "--batch-size, or free the device's memory",
                                       error.what())
                         : fmt::format("device: {}: got a failure, expected none", error.what()),
                  memory ? ExitCode::out_of_memory : ExitCode::device);
  } catch (const kernels::LibraryError& error) {
    return report(error.what(), ExitCode::device);
  } catch (const std::bad_alloc&) {
    return report("memory: host: got no more from the system, expected enough; try a smaller --batch-size",
                  ExitCode::out_of_memory);
  } catch (const std::exception& failure) {
    return report(fmt::format("internal: {}", failure.what()), ExitCode::internal);
  } catch (...) {
    return report("internal: an unknown exception", ExitCode::internal);
  }
}

}  // namespace engine
