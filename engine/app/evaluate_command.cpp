#include <omp.h>

#include <nlohmann/json.hpp>

#include "engine/app/commands.h"
#include "engine/app/data_parts.h"
#include "engine/app/json_text.h"
#include "engine/app/loaded_model.h"
#include "engine/app/open_device.h"
#include "engine/app/progress_display.h"
#include "engine/app/standard_output.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/train/run.h"

namespace engine {

int evaluate_command(const CommandLine& line) {
  LoadedModel loaded = load_model(line);
  TrainConfig& config = loaded.settings.run;
  const bool json = loaded.settings.command.json;
  omp_set_num_threads(config.threads);
  if (config.num_classes == 0) config.num_classes = loaded.num_classes;
  const DataParts data = open_data(config, *loaded.info, loaded.classes, false);
  if (!data.validation) {
    throw DataError(
        fmt::format("data: {}: got no validation part, expected one to evaluate on", escaped(config.data.data_path)));
  }
  if (static_cast<int64_t>(data.sets.classes.size()) > loaded.num_classes) {
    throw DataError(fmt::format("data: {}: got {} classes, expected at most the model's {}",
                                escaped(config.data.data_path), data.sets.classes.size(), loaded.num_classes));
  }
  log_info("data: {}", data.sets.summary);
  move_to(*loaded.module, open_device(config));
  ProgressDisplay progress(stdout, json ? ProgressStyle::none : progress_style(stdout, false));
  const EvalReport report = run_evaluation(*loaded.module, *data.validation, &progress);
  progress.clear();
  if (json) {
    print(json_text({{"images", report.images},
                     {"val_loss", report.val_loss},
                     {"val_top1", report.val_top1},
                     {"val_top5", report.val_top5},
                     {"seconds", report.seconds}}));
  } else {
    print(fmt::format("{} images, val_loss {:.4f}, val_top1 {:.2f} %, val_top5 {:.2f} %, {:.1f} s\n", report.images,
                      report.val_loss, report.val_top1, report.val_top5, report.seconds));
  }
  return 0;
}

}  // namespace engine
