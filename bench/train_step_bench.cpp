// Whole training steps (forward, backward, SGD with momentum and weight decay) on random pictures that are in memory
// already; on accelerators as bytes, and enqueued some steps ahead, as training does both. Counters: images_per_second,
// share_of_peak (three times the forward pass's multiply-adds against the machine's measured FP32 peak, on the CPU) and
// peak_memory_bytes. bench/compare_pytorch.py and compare_pytorch_cuda.py read them. Threads: OMP_NUM_THREADS. Beside
// Google Benchmark's flags: --device=cpu|cuda|emulated (cpu) and
// --precision=fp32|tf32|fp16|bf16 (fp32), loss scale 128 in fp16.

#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/support/machine.h"
#include "bench/support/stopwatch.h"
#include "engine/core/error.h"
#include "engine/core/random.h"
#include "engine/ops/device_path.h"
#include "engine/train/train_step.h"
#include "kernels/common/onednn.h"
#include "kernels/common/parallel.h"
#include "models/registry.h"

namespace engine::bench {
namespace {

constexpr double kLearningRate = 0.01;

/// What the command line says.
struct Where {
  Device device{};
  DType compute = DType::f32;
};
Where& where() {
  static Where chosen;
  return chosen;
}

struct StepCase {
  const char* model;
  int64_t size;
  int64_t batch;
};

/// A model in training and one batch for it; kept between the benchmark's repetitions.
class TrainFixture {
 public:
  explicit TrainFixture(const StepCase& step_case)
      : info_(models::find_model(step_case.model)),
        model_(info_.make({.num_classes = info_.fixed_size ? 10 : 1000})),
        parameters_(*model_, where().device, where().compute),
        optimizer_(make_optimizer({}, parameters_)),
        step_({model_.get(), &parameters_, optimizer_.get(), nullptr},
              {.loss_scale = where().compute == DType::f16 ? 128.0 : 1.0}) {
    const Shape pictures{step_case.batch, step_case.size, step_case.size, info_.channels};
    const bool bytes = !where().device.is_cpu();  // as loaders hand them out
    batch_.images = Tensor::empty(pictures, bytes ? DType::u8 : DType::f32, MemoryCategory::data);
    batch_.labels = Tensor::empty(Shape{step_case.batch}, DType::i64, MemoryCategory::data);
    batch_.global_samples = step_case.batch;
    RandomStream random(1, RandomPurpose::synthetic);
    for (int64_t i = 0; i < pictures.numel(); ++i) {
      if (bytes) {
        batch_.images.data<uint8_t>()[i] = static_cast<uint8_t>(random.next_u32());
      } else {
        batch_.images.data<float>()[i] = random.normal();
      }
    }
    const float mean[] = {0.5F, 0.5F, 0.5F}, stddev[] = {0.25F, 0.25F, 0.25F};
    batch_.pixel = kernels::pixel_scale(mean, stddev, static_cast<int>(info_.channels));
    for (int64_t i = 0; i < step_case.batch; ++i) {
      batch_.labels.data<int64_t>()[i] = i % (info_.fixed_size ? 10 : 1000);
      batch_.samples.push_back(i);
    }
  }

  /// Enqueues as many steps as training does before it waits for one.
  void fill() {
    if (!where().device.is_cpu()) {
      while (!step()) continue;
    }
  }
  /// Enqueues a step and waits for the oldest one, once there are enough; false where there are not.
  bool step() {
    step_.add(batch_);
    step_.end(kLearningRate);
    return step_.take(Lateness::allowed).has_value();
  }
  void drain() {
    while (step_.take(Lateness::none)) continue;
  }

  /// Floating-point operations of a step, a multiply-add counted as two.
  double operations() const {
    std::vector<LayerDescription> layers;
    model_->describe("", Shape{batch_.images.dim(1), batch_.images.dim(2), batch_.images.dim(3)}, layers);
    int64_t macs = 0;
    for (const LayerDescription& layer : layers) macs += layer.macs;
    return 2.0 * 3.0 * static_cast<double>(macs * batch_.images.dim(0));
  }

 private:
  const models::ModelInfo& info_;
  std::unique_ptr<Module> model_;
  FlatParameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainStep step_;
  Batch batch_;
};

void run(benchmark::State& state, const StepCase& step_case) {
  constexpr int64_t kMostOnCpu = 64;
  if (where().device.is_cpu() && step_case.batch > kMostOnCpu) {
    return state.SkipWithError("for accelerators: takes tens of GB");
  }
  // One case at a time, so that the memory of another one is not counted.
  static std::unique_ptr<TrainFixture> fixture;
  static std::string made_for;
  const std::string wanted = std::string(step_case.model) + std::to_string(step_case.size * 10000 + step_case.batch);
  if (made_for != wanted) {
    fixture.reset();
    reset_memory_peaks(where().device);
    fixture = std::make_unique<TrainFixture>(step_case);
    made_for = wanted;
  }
  fixture->fill();
  const Stopwatch stopwatch;
  for (auto _ : state) fixture->step();
  const double seconds = stopwatch.seconds();
  fixture->drain();
  using benchmark::Counter;
  const auto steps = static_cast<double>(state.iterations());
  state.counters["images_per_second"] = Counter(steps * static_cast<double>(step_case.batch), Counter::kIsRate);
  const bool on_cpu = where().device.is_cpu();
  if (on_cpu) {
    const double peak = peak_flops(kernels::max_threads());
    state.counters["share_of_peak"] = steps * fixture->operations() / seconds / peak;
  }
  state.counters["peak_memory_bytes"] =
      static_cast<double>(memory_stats(where().device).peak_total + (on_cpu ? kernels::onednn_scratch_bytes() : 0));
}

const bool kRegistered = [] {
  for (const StepCase& step_case :
       {StepCase{"resnet50", 224, 16}, StepCase{"resnet50", 224, 32}, StepCase{"resnet50", 64, 32},
        StepCase{"resnet18", 224, 32}, StepCase{"resnet18", 64, 32}, StepCase{"resnet50", 224, 256},
        StepCase{"simplecnn", 28, 64}}) {
    const std::string name = std::string("train_step/") + step_case.model + "/size:" + std::to_string(step_case.size) +
                             "/batch:" + std::to_string(step_case.batch);
    benchmark::RegisterBenchmark(name.c_str(), [step_case](benchmark::State& state) { run(state, step_case); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  return true;
}();

/// Takes this program's own flags out of the arguments.
void read_flags(std::vector<char*>& arguments) {
  std::erase_if(arguments, [](const char* text) {
    const std::string argument = text;
    const std::string device = "--device=", precision = "--precision=";
    if (argument.starts_with(device)) {
      where().device = parse_device(argument.substr(device.size()));
    } else if (argument.starts_with(precision)) {
      const std::string name = argument.substr(precision.size());
      where().compute = name == "fp16" ? DType::f16 : name == "bf16" ? DType::bf16 : DType::f32;
      set_allow_tf32(name == "tf32");
    } else {
      return false;
    }
    return true;
  });
}

}  // namespace
}  // namespace engine::bench

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  try {
    engine::bench::read_flags(arguments);
  } catch (const engine::Error& error) {
    fmt::print(stderr, "bench_train_step: error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
