// The front door of configuration files: whatever the bytes are, they are refused by name or become settings, and the
// settings that are written down say the same when they are read again.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/app/options.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/train/checkpoint.h"

using namespace engine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  set_log_level(LogLevel::error);
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  Settings settings;
  try {
    settings = resolve(given_in_config(text, "fuzzed.toml", kTrain), kTrain);
  } catch (const Error& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) abort();
    return 0;
  }
  const std::string written = config_text(values_in_force(settings));
  const Settings again = resolve(given_in_config(written, "written.toml", kTrain), kTrain);
  if (config_text(values_in_force(again)) != written) abort();
  return 0;
}
