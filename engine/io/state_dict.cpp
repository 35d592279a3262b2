#include "engine/io/state_dict.h"

#include <cstring>
#include <map>
#include <set>

#include "engine/core/dispatch.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/safetensors_header.h"
#include "kernels/cast/cast.h"
#include "kernels/permute/permute.h"

namespace engine {
namespace {

constexpr std::string_view kModulePrefix = "module.";

/// Calls f with the C++ type of a floating element type.
template <typename F>
void dispatch_floating(DType dtype, F&& f) {
  if (dtype == DType::f16) return f.template operator()<kernels::Half>();
  if (dtype == DType::bf16) return f.template operator()<kernels::BFloat16>();
  dispatch_float(dtype, "state_dict", f);
}

/// A tensor as [outer, spatial, channels] in memory, [outer, channels, spatial] in the file.
struct Permutation {
  int64_t outer, spatial, channels;
};

Permutation permutation_of(const FileTensor& entry) {
  const Shape& shape = entry.tensor.shape();
  if (entry.layout == FileLayout::filter) {
    ENGINE_CHECK(shape.rank() == 4, "[state_dict] filter {}: got shape {}, expected four axes", entry.name,
                 shape.str());
    return {shape[0], shape[1] * shape[2], shape[3]};
  }
  ENGINE_CHECK(shape.rank() == 2 && entry.channels > 0 && shape[1] % entry.channels == 0,
               "[state_dict] linear {}: got shape {} behind {} channels", entry.name, shape.str(), entry.channels);
  return {shape[0], shape[1] / entry.channels, entry.channels};
}

Shape file_shape(const FileTensor& entry) {
  const Shape& shape = entry.tensor.shape();
  if (entry.layout != FileLayout::filter) return shape;
  ENGINE_CHECK(shape.rank() == 4, "[state_dict] filter {}: got shape {}, expected four axes", entry.name, shape.str());
  return {shape[0], shape[3], shape[1], shape[2]};
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<std::byte*>(tensor.raw()), static_cast<size_t>(tensor.bytes())};
}

bool convertible(DType from, DType to) {
  if (from == to) return true;
  return is_floating(to) ? is_floating(from) : to == DType::i64 && from == DType::i32;
}

void convert(DType from, const void* source, const Tensor& target) {
  if (from == DType::i32) {
    const auto* values = static_cast<const int32_t*>(source);
    std::copy(values, values + target.numel(), target.data<int64_t>());
    return;
  }
  dispatch_floating(from, [&]<typename From>() {
    dispatch_floating(target.dtype(), [&]<typename To>() {
      kernels::cast_cpu(static_cast<const From*>(source), target.data<To>(), target.numel());
    });
  });
}

/// Reads one tensor and brings it to the layout and type in memory; what can be read in place is.
void load_one(const SafetensorsFile& file, const TensorInfo& info, const FileTensor& entry) {
  const Tensor& target = entry.tensor;
  if (!target.device().is_cpu()) {
    FileTensor on_host = entry;
    on_host.tensor = Tensor::empty(target.shape(), target.dtype(), MemoryCategory::workspace);
    load_one(file, info, on_host);
    target.copy_from(on_host.tensor);
    return;
  }
  if (entry.layout == FileLayout::plain && info.dtype == target.dtype()) {
    file.read(info, bytes_of(target));
    return;
  }
  const Tensor raw = Tensor::empty(target.shape(), info.dtype, MemoryCategory::workspace);
  file.read(info, bytes_of(raw));
  if (entry.layout == FileLayout::plain) {
    convert(info.dtype, raw.raw(), target);
    return;
  }
  const Permutation p = permutation_of(entry);
  const bool same = info.dtype == target.dtype();
  const Tensor permuted = same ? target : Tensor::empty(target.shape(), info.dtype, MemoryCategory::workspace);
  dispatch_floating(info.dtype, [&]<typename T>() {
    kernels::permute_channels_last_cpu(raw.data<T>(), permuted.data<T>(), p.outer, p.spatial, p.channels);
  });
  if (!same) convert(info.dtype, permuted.raw(), target);
}

/// The file's tensors behind the prefix by their bare names.
std::map<std::string_view, const TensorInfo*> bare_names(const SafetensorsFile& file, const std::string& prefix) {
  std::map<std::string_view, const TensorInfo*> names;
  int64_t stripped = 0;
  for (const TensorInfo& info : file.tensors()) {
    std::string_view name = info.name;
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    if (name.starts_with(kModulePrefix)) {
      name.remove_prefix(kModulePrefix.size());
      ++stripped;
    }
    if (!names.emplace(name, &info).second) {
      detail::refuse_safetensors(file.path(), detail::shown(name), "it with and without \"module.\"", "it once");
    }
  }
  if (stripped > 0) log_info("{}: dropped the prefix \"module.\" of {} names", file.path(), stripped);
  return names;
}

/// Names that do not fit, by kind.
struct Mismatches {
  std::vector<std::string> missing, unexpected, ill_shaped;
  bool any() const { return !missing.empty() || !unexpected.empty() || !ill_shaped.empty(); }
};

void append_kind(std::string& text, const char* kind, const std::vector<std::string>& names) {
  constexpr size_t kListed = 10;
  if (names.empty()) return;
  const std::vector<std::string> listed(names.begin(),
                                        names.begin() + static_cast<std::ptrdiff_t>(std::min(kListed, names.size())));
  text += fmt::format("{}{} {} ({}{})", text.empty() ? "" : ", ", names.size(), kind, fmt::join(listed, ", "),
                      names.size() > kListed ? ", ..." : "");
}

[[noreturn]] void refuse(const SafetensorsFile& file, const Mismatches& mismatches, size_t wanted, int64_t loaded) {
  std::string text;
  append_kind(text, "missing", mismatches.missing);
  append_kind(text, "unexpected", mismatches.unexpected);
  append_kind(text, "ill-shaped", mismatches.ill_shaped);
  throw CheckpointError(
      fmt::format("cannot load tensors: {}: got {}{}, expected the model's {} tensors", file.path(),
                  loaded == 0 ? "none that fits: " : "", text.empty() ? "nothing to load" : text, wanted),
      "the file must belong to this model; --reset-head loads all but a last layer of another size");
}

struct Planned {
  const TensorInfo* info;
  const FileTensor* entry;
};

/// Pairs the list with the file's names; what cannot be paired goes into `mismatches`, for the head into `head`.
std::vector<Planned> pair_up(const std::map<std::string_view, const TensorInfo*>& names,
                             std::span<const FileTensor> tensors, const std::string& head_prefix,
                             Mismatches& mismatches, Mismatches& head) {
  std::vector<Planned> plan;
  std::set<std::string_view> wanted;
  for (const FileTensor& entry : tensors) {
    ENGINE_CHECK(entry.tensor.is_contiguous(), "[state_dict] {}: got a strided view, expected a contiguous tensor",
                 entry.name);
    wanted.insert(entry.name);
    Mismatches& sink = !head_prefix.empty() && entry.name.starts_with(head_prefix) ? head : mismatches;
    const auto at = names.find(entry.name);
    if (at == names.end()) {
      if (!entry.optional) sink.missing.push_back(detail::shown(entry.name));
      continue;
    }
    const TensorInfo& info = *at->second;
    const Shape shape = file_shape(entry);
    if (info.shape == shape && convertible(info.dtype, entry.tensor.dtype())) {
      plan.push_back({&info, &entry});
    } else {
      sink.ill_shaped.push_back(fmt::format("{}: {} {} for {} {}", detail::shown(entry.name), name_of(info.dtype),
                                            info.shape.str(), name_of(entry.tensor.dtype()), shape.str()));
    }
  }
  for (const auto& [name, info] : names) {
    if (!wanted.contains(name)) mismatches.unexpected.push_back(detail::shown(name));
  }
  return plan;
}

}  // namespace

std::vector<SafetensorsEntry> file_entries(std::span<const FileTensor> tensors, const std::string& prefix) {
  std::vector<SafetensorsEntry> entries;
  for (const FileTensor& tensor : tensors) {
    ENGINE_CHECK(tensor.tensor.is_contiguous(), "[state_dict] {}: got a strided view, expected a contiguous tensor",
                 tensor.name);
    SafetensorsEntry entry{prefix + tensor.name, tensor.tensor.dtype(), file_shape(tensor), {}, {}};
    const bool on_host = tensor.tensor.device().is_cpu();
    if (tensor.layout == FileLayout::plain && on_host) {
      entry.bytes = bytes_of(tensor.tensor);
    } else if (tensor.layout == FileLayout::plain) {
      entry.fill = [source = tensor.tensor](std::span<std::byte> out) {
        const Tensor memory = source.to(Device::cpu());
        std::memcpy(out.data(), memory.raw(), out.size());
      };
    } else {
      entry.fill = [source = tensor.tensor, p = permutation_of(tensor)](std::span<std::byte> out) {
        const Tensor memory = source.to(Device::cpu());
        dispatch_floating(memory.dtype(), [&]<typename T>() {
          kernels::permute_channels_first_cpu(memory.data<T>(), reinterpret_cast<T*>(out.data()), p.outer, p.spatial,
                                              p.channels);
        });
      };
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

LoadResult load_tensors(const SafetensorsFile& file, std::span<const FileTensor> tensors, const LoadOptions& options) {
  const auto names = bare_names(file, options.prefix);
  const std::string head_prefix = options.head.empty() ? "" : options.head + ".";
  Mismatches mismatches, head;
  std::vector<Planned> plan = pair_up(names, tensors, head_prefix, mismatches, head);
  LoadResult result;
  const bool reset_head = head.any();
  if (reset_head) {
    // A head is replaced as a whole: a bias that happens to fit belongs to the old weights.
    std::erase_if(plan, [&](const Planned& pair) { return pair.entry->name.starts_with(head_prefix); });
  }
  for (const FileTensor& entry : tensors) {
    const bool in_head = reset_head && entry.name.starts_with(head_prefix);
    if (in_head) result.reset.push_back(entry.name);
    if (in_head || !entry.optional || names.contains(entry.name)) ++result.total;
  }
  result.loaded = static_cast<int64_t>(plan.size());
  if (mismatches.any() || plan.empty()) {
    if (plan.empty()) mismatches.missing.insert(mismatches.missing.end(), head.missing.begin(), head.missing.end());
    if (plan.empty()) {
      mismatches.ill_shaped.insert(mismatches.ill_shaped.end(), head.ill_shaped.begin(), head.ill_shaped.end());
    }
    refuse(file, mismatches, tensors.size(), result.loaded);
  }
  for (const Planned& pair : plan) load_one(file, *pair.info, *pair.entry);
  log_info("{}: loaded {} of {} tensors", file.path(), result.loaded, result.total);
  return result;
}

std::vector<FileTensor> file_tensors(std::span<const NamedTensor> tensors) {
  std::vector<FileTensor> found;
  for (const NamedTensor& named : tensors) {
    const bool counter = named.name.ends_with("num_batches_tracked");
    found.push_back({named.name, named.tensor, named.layout, named.channels, counter});
  }
  return found;
}

std::vector<FileTensor> file_tensors(const Module& model) {
  std::vector<NamedTensor> all = model.parameters();
  const std::vector<NamedTensor> buffers = model.buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  return file_tensors(all);
}

}  // namespace engine
