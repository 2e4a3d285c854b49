#include "lang/chunk_dag.h"

namespace mccl::lang {
namespace {

constexpr int kNone = -1;

// Per slot the last writer and the readers since, as linked lists in one pool.
class AccessTable {
 public:
  explicit AccessTable(int slot_count)
      : writer_(static_cast<size_t>(slot_count), kNone),
        readers_(static_cast<size_t>(slot_count), kNone) {}

  template <typename Edge>
  void read(int slot, int node, const Edge& edge) {
    if (writer_[slot] != kNone) edge(writer_[slot]);
    pool_.push_back({node, readers_[slot]});
    readers_[slot] = pool_.count() - 1;
  }

  template <typename Edge>
  void write(int slot, int node, const Edge& edge) {
    // Readers already wait for the writer before them.
    bool has_reader = false;
    for (int entry = readers_[slot]; entry != kNone; entry = pool_[entry].next) {
      edge(pool_[entry].node);
      has_reader = has_reader || pool_[entry].node != node;
    }
    if (!has_reader && writer_[slot] != kNone) edge(writer_[slot]);
    readers_[slot] = kNone;
    writer_[slot] = node;
  }

 private:
  struct Reader {
    int node;
    int next;
  };
  Indexed<int> writer_;
  Indexed<int> readers_;
  Indexed<Reader> pool_;
};

}  // namespace

ChunkDag::ChunkDag(const StepGraph& graph, const Program& shape) {
  const SlotMap slots(shape, shape.in_place);
  AccessTable table(slots.count());
  Indexed<int> seen_by(graph.nodes.size(), kNone);
  successors_.begin.assign(graph.nodes.size() + 1, 0);
  for (int index = 0; index < graph.nodes.count(); ++index) {
    const Node& node = graph.nodes[index];
    predecessors_.begin.push_back(predecessors_.items.count());
    const auto edge = [&](int before) {
      if (before == index || seen_by[before] == index) return;
      seen_by[before] = index;
      predecessors_.items.push_back(before);
      ++successors_.begin[before + 1];
    };
    for_each_read(graph, node, [&](const Span& span) {
      const int first = slots.first(span);
      for (int slot = first; slot < first + span.count; ++slot) table.read(slot, index, edge);
    });
    for_each_write(graph, node, [&](const Span& span) {
      const int first = slots.first(span);
      for (int slot = first; slot < first + span.count; ++slot) table.write(slot, index, edge);
    });
  }
  predecessors_.begin.push_back(predecessors_.items.count());
  for (int node = 0; node < graph.nodes.count(); ++node)
    successors_.begin[node + 1] += successors_.begin[node];
  successors_.items.resize(predecessors_.items.size());
  Indexed<int> next = successors_.begin;
  for (int node = 0; node < graph.nodes.count(); ++node)
    for (const int before : predecessors(node)) successors_.items[next[before]++] = node;
}

}  // namespace mccl::lang
