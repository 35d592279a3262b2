#include "engine/app/help.h"

#include <fmt/format.h>

#include <type_traits>

#include "engine/app/build_info.h"
#include "kernels/common/onednn.h"

namespace engine {
namespace {

constexpr size_t kColumn = 34;
constexpr size_t kWidth = 110;

const char* introduction(Command command) {
  switch (command) {
    case kTrain:
      return "Usage: engine_train [FLAGS]              trains\n"
             "       engine_train evaluate [FLAGS]     one pass over the validation part\n"
             "       engine_train predict [FLAGS] IMAGE...   the five best classes of pictures\n"
             "       engine_train export [FLAGS]       the model's tensors of a checkpoint as a weight file\n"
             "       engine_train info [FLAGS]         build, libraries, devices; a model's layers\n"
             "       engine_train plan [FLAGS]         what a run on a GPU would take, without one\n"
             "Each command has a --help of its own. Without --data-path the bundled pictures are used.\n";
    case kEvaluate:
      return "Usage: engine_train evaluate --checkpoint FILE [FLAGS]\n"
             "       engine_train evaluate --model MODEL --init-weights FILE [FLAGS]\n"
             "One pass over the validation part. A checkpoint brings its model, classes, picture sizes and data.\n";
    case kPredict:
      return "Usage: engine_train predict --checkpoint FILE IMAGE...\n"
             "       engine_train predict --model MODEL --init-weights FILE IMAGE...\n"
             "The five best classes of each picture. Goes on after a file that cannot be read; exit 3 at the end.\n";
    case kExport:
      return "Usage: engine_train export --checkpoint FILE --to OUT.safetensors\n"
             "Writes the model's tensors alone, as torchvision names and lays them out.\n";
    case kInfo:
      return "Usage: engine_train info [--json]\n"
             "       engine_train info --model MODEL [--num-classes N] [--json]\n"
             "Build, libraries and devices; or a model's parameters, layer by layer.\n";
    case kPlan:
      return "Usage: engine_train plan --gpu a100|h100|h200|b200|FILE.json [FLAGS]\n"
             "Memory by category, every convolution's plan and the largest batch on a GPU that need not be there; "
             "plans\n"
             "come from cuDNN, in builds that have it. 1000 classes and 224 pixels unless flags say otherwise.\n";
  }
  return "";
}

std::string metavar_of(const Flag& flag) {
  if (!flag.metavar.empty()) return flag.metavar;
  if (!flag.choices.empty()) return fmt::format("{}", fmt::join(flag.choices, "|"));
  if (flag.is_toggle()) return "";
  if (flag.is_list()) return "X,...";
  return std::visit(
      [](auto member) {
        using T = std::remove_cvref_t<decltype(member(std::declval<Settings&>()))>;
        return std::is_integral_v<T> ? "N" : "X";
      },
      flag.target);
}

/// Breaks at spaces so that lines end before kWidth; lines behind the first begin at kColumn.
std::string wrapped(const std::string& text, size_t column) {
  std::string out;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    if (column > kColumn && column + 1 + end - begin > kWidth) {
      out += '\n' + std::string(kColumn, ' ');
      column = kColumn;
    } else if (column > kColumn) {
      out += ' ';
      ++column;
    }
    out += text.substr(begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return out;
}

std::string flag_lines(const Flag& flag) {
  std::string head = fmt::format("  --{} {}", flag.name, metavar_of(flag));
  head.resize(head.find_last_not_of(' ') + 1);
  const std::string text =
      flag.shown_default.empty() ? flag.help : fmt::format("{} ({})", flag.help, flag.shown_default);
  const std::string gap =
      head.size() + 2 > kColumn ? '\n' + std::string(kColumn, ' ') : std::string(kColumn - head.size(), ' ');
  return head + gap + wrapped(text, kColumn) + '\n';
}

}  // namespace

std::string help_text(Command command) {
  std::string text = introduction(command);
  std::string task;
  for (const Flag& flag : all_flags()) {
    if ((flag.commands & command) == 0) continue;
    if (flag.task != task) text += fmt::format("\n{}:\n", flag.task);
    task = flag.task;
    text += flag_lines(flag);
  }
  text += "\n  --help                          this text\n";
  if (command == kTrain) text += "  --version                       one line: version, build, libraries\n";
  return text;
}

std::string version_text() {
  return fmt::format("engine_train {} ({}, {}, oneDNN {})\n", build::kVersion, build::kCompiler, build::kType,
                     kernels::onednn_version());
}

}  // namespace engine
