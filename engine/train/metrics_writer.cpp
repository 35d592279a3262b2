#include "engine/train/metrics_writer.h"

#include "engine/ops/cast.h"

namespace engine {

MetricsWriter::MetricsWriter(const std::filesystem::path& folder, int64_t resume_step)
    : lines_(folder / "metrics.jsonl"), events_(folder, resume_step) {}

void MetricsWriter::write_step(const StepReport& report) {
  std::vector<JsonField> row = {{"kind", std::string("train")},
                                {"step", report.step},
                                {"epoch", report.epoch},
                                {"loss", report.loss},
                                {"lr", report.lr},
                                {"grad_norm", report.grad_norm},
                                {"images_per_second", report.images_per_second},
                                {"data_wait_fraction", report.data_wait_fraction},
                                {"peak_memory_bytes", report.peak_memory_bytes}};
  std::vector<ScalarPoint> points = {{"train/loss", report.loss},
                                     {"train/lr", report.lr},
                                     {"train/grad_norm", report.grad_norm},
                                     {"train/images_per_second", report.images_per_second}};
  if (report.loss_scale) {
    row.insert(row.end(), {{"loss_scale", *report.loss_scale}, {"skipped_steps", report.skipped_steps}});
    points.push_back({"train/loss_scale", *report.loss_scale});
  }
  lines_.append(row);
  events_.scalars(report.step, points);
}

void MetricsWriter::write_eval(const EvalReport& report, const AverageReport* average) {
  std::vector<JsonField> row = {{"kind", std::string("eval")}, {"step", report.step},
                                {"epoch", report.epoch},       {"val_loss", report.val_loss},
                                {"val_top1", report.val_top1}, {"val_top5", report.val_top5},
                                {"images", report.images}};
  std::vector<ScalarPoint> points = {
      {"val/loss", report.val_loss}, {"val/top1", report.val_top1}, {"val/top5", report.val_top5}};
  if (average != nullptr) {
    row.insert(row.end(), {{"ema_val_loss", average->val_loss},
                           {"ema_val_top1", average->val_top1},
                           {"ema_val_top5", average->val_top5}});
    points.insert(points.end(), {{"val/ema_loss", average->val_loss},
                                 {"val/ema_top1", average->val_top1},
                                 {"val/ema_top5", average->val_top5}});
  }
  lines_.append(row);
  events_.scalars(report.step, points);
}

void MetricsWriter::write_histograms(int64_t step, const FlatParameters& parameters) {
  const auto write = [&](const char* what, const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& named : tensors) {
      const std::vector<float> values = cast(named.tensor.detach(), DType::f32).to_vector<float>();
      events_.histogram(step, std::string(what) + named.name, histogram_of(values));
    }
  };
  write("weights/", parameters.views(parameters.master()));
  write("gradients/", parameters.gradient_views());
}

}  // namespace engine
