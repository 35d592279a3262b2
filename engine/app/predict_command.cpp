#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "data/decode.h"
#include "engine/app/commands.h"
#include "engine/app/data_parts.h"
#include "engine/app/json_text.h"
#include "engine/app/loaded_model.h"
#include "engine/app/open_device.h"
#include "engine/app/standard_output.h"
#include "engine/autograd/node.h"
#include "engine/core/error.h"
#include "engine/core/log.h"

namespace engine {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kTop = 5;

/// Pictures through one model, one after another.
class Predictor {
 public:
  Predictor(LoadedModel& loaded, const models::ModelInfo& info)
      : loaded_(loaded), transform_(evaluation_transform(loaded.settings.run, info), static_cast<int>(info.channels)) {
    decode_.mode = info.channels == 1 ? data::ImageMode::gray : data::ImageMode::rgb;
    decode_.max_pixels = loaded.settings.run.data.max_image_pixels;
  }

  /// Throws DataError where the file cannot be read.
  std::vector<float> logits(const std::string& path) {
    const NoGradGuard no_grad;
    data::decode_image_file(path, decode_, image_);
    const Tensor input = Tensor::empty(Shape{1, transform_.height(), transform_.width(), transform_.channels()});
    // The evaluation transform draws no random numbers.
    transform_.apply(image_, RandomStream(0, RandomPurpose::augment), scratch_, input.data<float>());
    return loaded_.module->forward(input.to(device_of(*loaded_.module))).to_vector<float>();
  }

  std::string class_name(size_t index) const {
    return index < loaded_.classes.size() ? loaded_.classes[index] : std::to_string(index);
  }

 private:
  LoadedModel& loaded_;
  data::Transform transform_;
  data::DecodeOptions decode_;
  data::Image image_;
  data::Transform::Scratch scratch_;
};

std::vector<double> softmax(const std::vector<float>& logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> shares(logits.size());
  std::transform(logits.begin(), logits.end(), shares.begin(), [&](float x) { return std::exp(x - highest); });
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

/// Indices of the highest values, highest first, of equal ones the lower index.
std::vector<size_t> best(const std::vector<float>& logits) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(kTop, order.size());
  const auto higher = [&](size_t a, size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), higher);
  order.resize(count);
  return order;
}

/// The value with nine significant digits, which give the same float back.
double nine_digits(float value) { return std::strtod(fmt::format("{:.9g}", value).c_str(), nullptr); }

void refuse_nonfinite(const std::vector<float>& logits) {
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) return;
  throw CheckpointError("predict: logits: got values that are not finite, expected finite ones",
                        "the weights are not those of a trained model");
}

/// One picture's entry; the text for a reader goes to `text`.
Json predict(Predictor& predictor, const std::string& path, bool with_logits, std::string& text) {
  const std::vector<float> logits = predictor.logits(path);
  refuse_nonfinite(logits);
  const std::vector<double> shares = softmax(logits);
  Json top = Json::array();
  text = escaped(path) + ":";
  for (const size_t index : best(logits)) {
    const std::string name = predictor.class_name(index);
    top.push_back({{"class", name}, {"index", index}, {"probability", shares[index]}});
    text += fmt::format("  {} {:.1f} %", escaped(name), 100 * shares[index]);
  }
  Json entry = {{"file", path}, {"top", top}};
  if (with_logits) {
    Json& values = entry["logits"] = Json::array();
    text += "  logits";
    for (const float value : logits) {
      values.push_back(nine_digits(value));
      text += fmt::format(" {:.9g}", value);
    }
  }
  return entry;
}

}  // namespace

int predict_command(const CommandLine& line) {
  if (line.arguments.empty()) throw ConfigError("command line: got no pictures, expected at least one file");
  LoadedModel loaded = load_model(line);
  omp_set_num_threads(loaded.settings.run.threads);
  fill_in_normalization(loaded.settings.run, *loaded.info);
  move_to(*loaded.module, open_device(loaded.settings.run));
  Predictor predictor(loaded, *loaded.info);
  const CommandSettings& command = loaded.settings.command;
  Json predictions = Json::array();
  std::vector<std::string> failures;
  for (const std::string& path : line.arguments) {
    std::string text;
    try {
      predictions.push_back(predict(predictor, path, command.logits, text));
    } catch (const DataError& error) {
      predictions.push_back({{"file", path}, {"error", error.what()}});
      failures.emplace_back(error.what());
      text = fmt::format("{}: error: {}", escaped(path), error.what());
    }
    if (!command.json) print(text + '\n');
  }
  if (command.json) print(json_text({{"predictions", predictions}}));
  if (!failures.empty()) {
    throw DataError(fmt::format("predict: {} of {} pictures could not be read, first {}", failures.size(),
                                line.arguments.size(), failures[0]));
  }
  return 0;
}

}  // namespace engine
