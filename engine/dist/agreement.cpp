#include "engine/dist/agreement.h"

#include <exception>

#include "engine/core/error.h"
#include "engine/dist/hash.h"

namespace engine {
namespace {

/// Parts of a model that are alike on all ranks.
struct ModelPart {
  const char* name;
  Tensor tensor;
};

std::vector<ModelPart> parts_of(const FlatParameters& parameters) {
  std::vector<ModelPart> parts{{"parameters", parameters.master()}};
  if (parameters.statistics().numel() > 0) parts.push_back({"running statistics", parameters.statistics()});
  for (const NamedTensor& counter : parameters.counters()) parts.push_back({"counters", counter.tensor});
  return parts;
}

/// Names and values, each with its length before it, so that any text fits.
std::string packed(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string text;
  for (const auto& [name, value] : settings) {
    for (const std::string& word : {name, value}) text += fmt::format("{}:{}", word.size(), word);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> unpacked(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t colon = text.find(':', at), size = std::stoul(text.substr(at, colon - at));
    words.push_back(text.substr(colon + 1, size));
    at = colon + 1 + size;
  }
  std::vector<std::pair<std::string, std::string>> settings;
  for (size_t i = 0; i + 1 < words.size(); i += 2) settings.emplace_back(words[i], words[i + 1]);
  return settings;
}

}  // namespace

void broadcast_model(Communicator& processes, FlatParameters& parameters) {
  if (processes.size() == 1) return;
  for (const ModelPart& part : parts_of(parameters)) {
    const Tensor host = part.tensor.to(Device::cpu());
    processes.broadcast(fmt::format("{} of rank 0", part.name), buffer_of(host));
    if (!host.shares_memory_with(part.tensor)) part.tensor.copy_from(host);
  }
  parameters.refresh_compute_copy();
  verify_same_model(processes, parameters, "after the broadcast");
}

void verify_same_model(Communicator& processes, const FlatParameters& parameters, const std::string& when) {
  if (processes.size() == 1) return;
  const std::vector<ModelPart> parts = parts_of(parameters);
  const size_t count = parts.size(), own = static_cast<size_t>(processes.rank()) * count;
  std::vector<int64_t> hashes(count * static_cast<size_t>(processes.size()));
  for (size_t i = 0; i < count; ++i) {
    const Tensor host = parts[i].tensor.to(Device::cpu());
    Hash hash;
    hash.add(host.raw(), static_cast<size_t>(host.bytes()));
    hashes[own + i] = static_cast<int64_t>(hash.value());
  }
  processes.all_gather(
      "hashes of the model", buffer_of(std::span(hashes)),
      Shards::equal(static_cast<int64_t>(hashes.size()), processes.size(), static_cast<int64_t>(count)));
  for (size_t at = 0; at < hashes.size(); ++at) {
    if (hashes[at] == hashes[at % count]) continue;
    throw Error(fmt::format("model: {} {}: rank {} has others than rank 0", parts[at % count].name, when, at / count),
                "one of the machines computes wrong, or the processes do not run the same program");
  }
}

void agree_on(Communicator& processes, const std::vector<std::pair<std::string, std::string>>& settings) {
  if (processes.size() == 1) return;
  const std::vector<std::string> texts = processes.gather_texts("settings", packed(settings));
  const auto first = unpacked(texts[0]);
  for (int rank = 1; rank < processes.size(); ++rank) {
    const auto theirs = unpacked(texts[static_cast<size_t>(rank)]);
    if (theirs == first) continue;
    size_t at = 0;
    while (at < std::min(first.size(), theirs.size()) && first[at] == theirs[at]) ++at;
    const auto shown = [&](const auto& some) {
      return at < some.size() ? escaped(some[at].first + " " + some[at].second) : "nothing";
    };
    throw ConfigError(fmt::format("processes: settings: got {} on rank {} and {} on rank 0, expected the same",
                                  shown(theirs), rank, shown(first)),
                      "start all processes with the same command line and files");
  }
}

void do_together(Communicator& processes, const std::string& what, const std::function<void()>& work) {
  std::exception_ptr own;
  std::string words;
  try {
    work();
  } catch (const std::exception& error) {
    own = std::current_exception();
    words = error.what();
    if (words.empty()) words = "an error";
  }
  const std::vector<std::string> all = processes.gather_texts(what, words);
  if (own) std::rethrow_exception(own);
  for (int rank = 0; rank < processes.size(); ++rank) {
    const std::string& theirs = all[static_cast<size_t>(rank)];
    if (!theirs.empty()) throw PeerError(fmt::format("processes: {}: rank {}: {}", what, rank, theirs));
  }
}

}  // namespace engine
