#include "engine/train/evaluation.h"

#include <chrono>
#include <memory>

#include "engine/autograd/node.h"
#include "engine/core/error.h"
#include "engine/core/memory_shortage.h"
#include "engine/ops/cast.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/train/batch_upload.h"

namespace engine {
namespace {

constexpr const char* kEvaluation = "the evaluation";

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
};

/// Sums over batches.
class Measure {
 public:
  virtual ~Measure() = default;
  virtual void add(const Batch& batch) = 0;
  virtual Totals totals() = 0;
};

class HostMeasure final : public Measure {
 public:
  explicit HostMeasure(Module& model) : model_(model) {}
  void add(const Batch& batch) override {
    const Tensor logits = model_(cast(batch.images, compute_dtype_of(model_)));
    totals_.loss += softmax_cross_entropy(logits, batch.labels, {.normalizer = 1}).item();
    totals_.top1 += topk_correct(logits, batch.labels, 1);
    totals_.top5 += topk_correct(logits, batch.labels, 5);
  }
  Totals totals() override { return totals_; }

 private:
  Module& model_;
  Totals totals_;
};

/// Sums in the memory of an accelerator, so that the host reads them once, at the end.
class DeviceMeasure final : public Measure {
 public:
  DeviceMeasure(Module& model, Device device)
      : model_(model),
        upload_(device, compute_dtype_of(model)),
        loss_(Tensor::zeros(Shape{}, DType::f32, MemoryCategory::workspace, device)),
        top1_(Tensor::zeros(Shape{}, DType::i32, MemoryCategory::workspace, device)),
        top5_(Tensor::zeros(Shape{}, DType::i32, MemoryCategory::workspace, device)) {}

  void add(const Batch& batch) override {
    const DeviceBatch& uploaded = upload_.upload(batch);
    const Tensor logits = model_(uploaded.images);
    softmax_cross_entropy(logits, uploaded.labels, {.normalizer = 1, .add_to = loss_});
    add_topk_correct(logits, uploaded.labels, 1, top1_);
    add_topk_correct(logits, uploaded.labels, 5, top5_);
  }

  Totals totals() override {
    return {loss_.item(), static_cast<int64_t>(top1_.item()), static_cast<int64_t>(top5_.item())};
  }

 private:
  Module& model_;
  BatchUpload upload_;
  Tensor loss_, top1_, top5_;
};

std::unique_ptr<Measure> make_measure(Module& model) {
  const Device device = device_of(model);
  use_device(device);
  if (device.is_cpu()) return std::make_unique<HostMeasure>(model);
  return std::make_unique<DeviceMeasure>(model, device);
}

}  // namespace

void try_evaluation(Module& model, BatchSource& source, Shape& pictures) {
  const EvaluationMode mode(model);
  const NoGradGuard no_grad;
  const MemoryPhase phase(kEvaluation);
  const std::unique_ptr<Measure> measure = make_measure(model);
  source.allow_bytes(!device_of(model).is_cpu());
  source.start(0, 0);
  const auto batch = source.next();
  if (!batch || batch->samples.empty()) return;
  pictures = batch->images.shape();
  measure->add(*batch);
  measure->totals();
}

std::optional<EvalReport> evaluate_model(Module& model, BatchSource& source, const EvaluationOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const EvaluationMode mode(model);
  const NoGradGuard no_grad;
  const MemoryPhase phase(kEvaluation);
  const std::unique_ptr<Measure> measure = make_measure(model);
  int64_t counted = 0;
  source.allow_bytes(!device_of(model).is_cpu());
  source.start(0, 0);
  while (const auto batch = source.next()) {
    if (!batch->samples.empty()) {
      measure->add(*batch);
      counted += batch->images.dim(0);
    }
    if (options.cancelled && options.cancelled()) return std::nullopt;
    if (options.progress != nullptr) options.progress->on_evaluation(counted, source.samples());
  }
  if (counted == 0) throw DataError("evaluation: got no picture, expected at least one");
  const Totals totals = measure->totals();
  const auto images = static_cast<double>(counted);
  EvalReport report;
  report.val_loss = totals.loss / images;
  report.val_top1 = 100 * static_cast<double>(totals.top1) / images;
  report.val_top5 = 100 * static_cast<double>(totals.top5) / images;
  report.images = counted;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace engine
