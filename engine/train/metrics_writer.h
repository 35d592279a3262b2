#pragma once
// metrics.jsonl and the TensorBoard files of a run.

#include <filesystem>
#include <memory>

#include "engine/io/json_lines.h"
#include "engine/io/tensorboard.h"
#include "engine/nn/flat_parameters.h"
#include "engine/train/progress.h"

namespace engine {

/// What evaluation of the moving average adds to a row.
struct AverageReport {
  double val_loss;
  double val_top1;
  double val_top5;
};

/// Members throw OutputError.
class MetricsWriter {
 public:
  /// `resume_step`: points of later steps are taken out of the TensorBoard files; 0 for a new run.
  MetricsWriter(const std::filesystem::path& folder, int64_t resume_step);

  void write_step(const StepReport& report);
  void write_eval(const EvalReport& report, const AverageReport* average);
  /// Weights and gradients of each parameter.
  void write_histograms(int64_t step, const FlatParameters& parameters);

 private:
  JsonLines lines_;
  EventWriter events_;
};

}  // namespace engine
