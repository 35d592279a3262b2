#include "engine/dist/communicator.h"

#include <algorithm>

#include "engine/core/error.h"

namespace engine {
namespace {

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

void check_reducible(const Collective& collective) {
  const DType dtype = collective.buffer.dtype;
  ENGINE_CHECK(is_floating(dtype) || dtype == DType::i64, "[{}] {}: got {}, expected f64, f32, f16, bf16 or i64",
               name_of(collective.kind), collective.name, name_of(dtype));
  ENGINE_CHECK(is_floating(dtype) || collective.op != ReduceOp::average, "[{}] {}: integers cannot be averaged",
               name_of(collective.kind), collective.name);
}

class SingleProcess final : public Communicator {
 public:
  SingleProcess() : Communicator(0) {}
  std::unique_ptr<Watch> watch(const std::string&) override { return std::make_unique<Watch>(); }
  void check() override {}
  void fail(const std::string&) override {}
  void close() override {}

 protected:
  Request enqueue(Collective) override { return {}; }
};

}  // namespace

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::max:
      return "max";
  }
  return "?";
}

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::barrier:
      return "barrier";
  }
  return "?";
}

ElementBuffer buffer_of(const Tensor& tensor) {
  ENGINE_CHECK(tensor.is_contiguous(), "[communicator] tensor: expected a contiguous one");
  return {tensor.raw(), tensor.numel(), tensor.dtype()};
}

void complete(Collective& collective, int size) {
  if (reduces(collective.kind)) check_reducible(collective);
  ENGINE_CHECK(collective.root >= 0 && collective.root < size, "[{}] root: got {}, expected 0 to {}",
               name_of(collective.kind), collective.root, size - 1);
  if (collective.parts.size() == 0) collective.parts = Shards::equal(collective.buffer.count, size);
  ENGINE_CHECK(collective.parts.size() == size && collective.parts.count() == collective.buffer.count,
               "[{}] {}: got parts for {} ranks and {} elements, expected {} and {}", name_of(collective.kind),
               collective.name, collective.parts.size(), collective.parts.count(), size, collective.buffer.count);
}

Request Communicator::start(Collective collective) {
  complete(collective, size());
  return enqueue(std::move(collective));
}

Request Communicator::start_all_reduce(std::string name, const ElementBuffer& buffer, ReduceOp op) {
  return start({.kind = CollectiveKind::all_reduce, .name = std::move(name), .buffer = buffer, .op = op});
}

Request Communicator::start_reduce_scatter(std::string name, const ElementBuffer& buffer, Shards parts, ReduceOp op) {
  return start({.kind = CollectiveKind::reduce_scatter,
                .name = std::move(name),
                .buffer = buffer,
                .op = op,
                .parts = std::move(parts)});
}

Request Communicator::start_all_gather(std::string name, const ElementBuffer& buffer, Shards parts) {
  return start(
      {.kind = CollectiveKind::all_gather, .name = std::move(name), .buffer = buffer, .parts = std::move(parts)});
}

Request Communicator::start_broadcast(std::string name, const ElementBuffer& buffer, int root) {
  return start({.kind = CollectiveKind::broadcast, .name = std::move(name), .buffer = buffer, .root = root});
}

void Communicator::all_reduce(std::string name, const ElementBuffer& buffer, ReduceOp op) {
  start_all_reduce(std::move(name), buffer, op).wait();
}

void Communicator::reduce_scatter(std::string name, const ElementBuffer& buffer, Shards parts, ReduceOp op) {
  start_reduce_scatter(std::move(name), buffer, std::move(parts), op).wait();
}

void Communicator::all_gather(std::string name, const ElementBuffer& buffer, Shards parts) {
  start_all_gather(std::move(name), buffer, std::move(parts)).wait();
}

void Communicator::broadcast(std::string name, const ElementBuffer& buffer, int root) {
  start_broadcast(std::move(name), buffer, root).wait();
}

void Communicator::barrier(std::string name) { start({.name = std::move(name)}).wait(); }

std::vector<std::string> Communicator::gather_texts(const std::string& name, const std::string& text) {
  std::vector<int64_t> sizes(static_cast<size_t>(size()));
  sizes[static_cast<size_t>(rank())] = static_cast<int64_t>(text.size());
  all_gather(name + ", sizes", buffer_of(std::span(sizes)), Shards::equal(size(), size()));
  std::vector<int64_t> ends;
  for (int64_t end = 0; const int64_t bytes : sizes) ends.push_back(end += bytes);
  const Shards parts(ends);
  std::vector<uint8_t> all(static_cast<size_t>(parts.count()));
  std::copy(text.begin(), text.end(), all.begin() + parts.part(rank()).begin);
  all_gather(name, buffer_of(std::span(all)), parts);
  std::vector<std::string> texts;
  for (int rank = 0; rank < size(); ++rank) {
    texts.emplace_back(all.begin() + parts.part(rank).begin, all.begin() + parts.part(rank).end);
  }
  return texts;
}

std::unique_ptr<Communicator> make_single_process() { return std::make_unique<SingleProcess>(); }

}  // namespace engine
