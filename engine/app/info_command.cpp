#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/dataset.h"
#include "engine/app/build_info.h"
#include "engine/app/commands.h"
#include "engine/app/json_text.h"
#include "engine/app/options.h"
#include "engine/app/standard_output.h"
#include "engine/core/device.h"
#include "kernels/common/onednn.h"
#include "models/registry.h"

namespace engine {
namespace {

using Json = nlohmann::ordered_json;

Json version_or_null(const std::string& version) { return version.empty() ? Json(nullptr) : Json(version); }

Json build_json() {
  return {{"type", build::kType},
          {"compiler", build::kCompiler},
          {"cuda", version_or_null(build::kCuda)},
          {"cudnn", version_or_null(build::kCudnn)},
          {"nccl", version_or_null(build::kNccl)},
          {"mpi", nullptr},
          {"onednn", kernels::onednn_version()},
          {"cuda_architectures", Json::parse(fmt::format("[{}]", build::kCudaArchitectures))}};
}

Json device_rows() {
  const CpuDescription cpu = describe_cpu();
  Json rows =
      Json::array({{{"name", cpu.name}, {"kind", "cpu"}, {"memory_bytes", cpu.memory_bytes}, {"cores", cpu.cores}}});
  for (const AcceleratorDescription& found : describe_accelerators()) {
    rows.push_back({{"name", found.name},
                    {"kind", kernels::kBuiltWithCuda ? "cuda" : "emulated"},
                    {"memory_bytes", found.memory_bytes},
                    {"multiprocessors", found.multiprocessors},
                    {"compute_capability", fmt::format("{}.{}", found.major, found.minor)}});
  }
  return rows;
}

/// The devices, a line each.
std::string device_lines() {
  std::string text;
  for (const Json& row : device_rows()) {
    text += fmt::format("{}: {}, {}, {:.1f} GiB\n", row["kind"].get<std::string>(), row["name"].get<std::string>(),
                        row.contains("cores") ? fmt::format("{} cores", row["cores"].get<int64_t>())
                                              : fmt::format("{} multiprocessors, compute capability {}",
                                                            row["multiprocessors"].get<int64_t>(),
                                                            row["compute_capability"].get<std::string>()),
                        static_cast<double>(row["memory_bytes"].get<int64_t>()) / 0x1p30);
  }
  return text;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& model : models::all_models()) names.push_back(model.name);
  return names;
}

void print_machine(bool json) {
  const Json build = build_json();
  const std::vector<std::string>& optimizers = find_flag("opt")->choices;
  if (json) {
    print(json_text({{"version", build::kVersion},
                     {"build", build},
                     {"devices", device_rows()},
                     {"models", model_names()},
                     {"datasets", data::dataset_names()},
                     {"optimizers", optimizers}}));
    return;
  }
  const std::string cuda = *build::kCuda == '\0' ? "no CUDA" : fmt::format("CUDA {}", build::kCuda);
  print(fmt::format("engine_train {}, {} build by {}, oneDNN {}, {}{}{}\n{}models: {}\ndata sets: {}\noptimizers: {}\n",
                    build::kVersion, build::kType, build::kCompiler, kernels::onednn_version(), cuda,
                    *build::kCudnn == '\0' ? "" : fmt::format(", cuDNN {}", build::kCudnn),
                    *build::kNccl == '\0' ? "" : fmt::format(", NCCL {}", build::kNccl), device_lines(),
                    fmt::join(model_names(), ", "), fmt::join(data::dataset_names(), ", "),
                    fmt::join(optimizers, ", ")));
}

struct ModelSize {
  int64_t parameters = 0;
  int64_t tensors = 0;
  int64_t buffers = 0;
  std::vector<LayerDescription> layers;
};

ModelSize size_of_model(const models::ModelInfo& info, int64_t num_classes) {
  const auto model = info.make({.num_classes = num_classes});
  ModelSize size;
  for (const NamedTensor& parameter : model->parameters()) {
    size.parameters += parameter.tensor.numel();
    ++size.tensors;
  }
  for (const NamedTensor& buffer : model->buffers()) {
    if (!buffer.name.ends_with("num_batches_tracked")) ++size.buffers;
  }
  model->describe("", Shape{info.picture_size, info.picture_size, info.channels}, size.layers);
  return size;
}

void print_model(const std::string& name, const ModelSize& size, bool json) {
  if (json) {
    Json layers = Json::array();
    for (const LayerDescription& layer : size.layers) {
      const auto extents = layer.output_shape.extents();
      layers.push_back({{"name", layer.name},
                        {"kind", layer.kind},
                        {"output_shape", std::vector<int64_t>(extents.begin(), extents.end())},
                        {"parameters", layer.parameters},
                        {"macs", layer.macs}});
    }
    print(json_text({{"model", name},
                     {"parameters", size.parameters},
                     {"tensors", size.tensors},
                     {"buffers", size.buffers},
                     {"layers", layers}}));
    return;
  }
  std::string text =
      fmt::format("{:<28} {:<14} {:<18} {:>12} {:>15}\n", "layer", "kind", "output", "parameters", "macs");
  int64_t macs = 0;
  for (const LayerDescription& layer : size.layers) {
    text += fmt::format("{:<28} {:<14} {:<18} {:>12} {:>15}\n", layer.name, layer.kind, layer.output_shape.str(),
                        layer.parameters, layer.macs);
    macs += layer.macs;
  }
  print(text + fmt::format("{}: {} parameters in {} tensors, {} buffers, {} multiply-adds a picture\n", name,
                           size.parameters, size.tensors, size.buffers, macs));
}

}  // namespace

int info_command(const CommandLine& line) {
  const Settings settings = resolve(line.flags, kInfo);
  if (!line.flags.contains("model") && !line.flags.contains("num-classes")) {
    print_machine(settings.command.json);
    return 0;
  }
  const models::ModelInfo& info = models::find_model(settings.run.model);
  const int64_t usual = info.fixed_size ? 10 : 1000;
  const int64_t classes = settings.run.num_classes > 0 ? settings.run.num_classes : usual;
  print_model(info.name, size_of_model(info, classes), settings.command.json);
  return 0;
}

}  // namespace engine
