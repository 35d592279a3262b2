#include "engine/train/evaluation.h"

#include <chrono>

#include "engine/autograd/node.h"
#include "engine/core/error.h"
#include "engine/ops/softmax_cross_entropy.h"

namespace engine {
namespace {

/// Evaluation mode for a while.
class EvaluationMode {
 public:
  explicit EvaluationMode(Module& model) : model_(model), before_(model.training()) { model.set_training(false); }
  ~EvaluationMode() { model_.set_training(before_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Module& model_;
  bool before_;
};

struct Totals {
  double loss = 0;
  int64_t top1 = 0;
  int64_t top5 = 0;
  int64_t images = 0;
};

void add_batch(Module& model, const Batch& batch, Totals& totals) {
  const Tensor logits = model(batch.images);
  totals.loss += softmax_cross_entropy(logits, batch.labels, {.normalizer = 1}).item();
  totals.top1 += topk_correct(logits, batch.labels, 1);
  totals.top5 += topk_correct(logits, batch.labels, 5);
  totals.images += batch.images.dim(0);
}

}  // namespace

std::optional<EvalReport> evaluate_model(Module& model, BatchSource& source, const EvaluationOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const EvaluationMode mode(model);
  const NoGradGuard no_grad;
  Totals totals;
  source.start(0, 0);
  while (const auto batch = source.next()) {
    if (!batch->samples.empty()) add_batch(model, *batch, totals);
    if (options.cancelled && options.cancelled()) return std::nullopt;
    if (options.progress != nullptr) options.progress->on_evaluation(totals.images, source.samples());
  }
  if (totals.images == 0) throw DataError("evaluation: got no picture, expected at least one");
  const auto images = static_cast<double>(totals.images);
  EvalReport report;
  report.val_loss = totals.loss / images;
  report.val_top1 = 100 * static_cast<double>(totals.top1) / images;
  report.val_top5 = 100 * static_cast<double>(totals.top5) / images;
  report.images = totals.images;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace engine
