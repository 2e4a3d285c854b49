#include "comm/fingerprint.h"

#include <fmt/format.h>

#include <cstring>

#include "base/dtype.h"
#include "ir/collective.h"

namespace mccl {
namespace {

struct Packed {
  uint8_t collective;
  uint8_t dtype;
  uint8_t op;
  uint8_t is_barrier;
  int32_t root;
  int64_t count;
  uint32_t plan_hash;
  uint32_t lengths_hash;
};
static_assert(sizeof(Packed) == sizeof(Fingerprint));

bool has_root(Collective collective) {
  return collective == Collective::Broadcast || collective == Collective::Reduce ||
         collective == Collective::Gather || collective == Collective::Scatter;
}

// A name for a byte that came from a peer and may lie outside the enum.
template <typename Enum>
std::string name_of(Enum value, size_t count, std::string_view (*name)(Enum)) {
  if (static_cast<size_t>(value) < count) return std::string(name(value));
  return fmt::format("unknown {}", static_cast<int>(value));
}

struct Words {
  std::string collective, dtype, op, root, count, plan, lengths;
};

Words words_of(const CallSummary& call) {
  return {call.is_barrier
              ? "barrier"
              : name_of(call.collective, all_collectives().size() + 1, &collective_name),
          name_of(call.dtype, all_data_types().size(), &dtype_name),
          name_of(call.op, all_reduce_ops().size(), &reduce_op_name),
          std::to_string(call.root),
          std::to_string(call.count),
          fmt::format("{:08x}", call.plan_hash),
          fmt::format("{:08x}", call.lengths_hash)};
}

}  // namespace

Fingerprint pack_fingerprint(const CallSummary& call) {
  const Packed packed{static_cast<uint8_t>(call.collective),
                      static_cast<uint8_t>(call.dtype),
                      static_cast<uint8_t>(call.op),
                      call.is_barrier,
                      call.root,
                      call.count,
                      call.plan_hash,
                      call.lengths_hash};
  Fingerprint fingerprint;
  std::memcpy(fingerprint.data(), &packed, sizeof(packed));
  return fingerprint;
}

CallSummary unpack_fingerprint(const Fingerprint& fingerprint) {
  Packed packed;
  std::memcpy(&packed, fingerprint.data(), sizeof(packed));
  return {static_cast<Collective>(packed.collective),
          static_cast<DataType>(packed.dtype),
          static_cast<ReduceOp>(packed.op),
          packed.root,
          packed.count,
          packed.plan_hash,
          packed.lengths_hash,
          packed.is_barrier != 0};
}

std::string describe_call(const Fingerprint& fingerprint) {
  const CallSummary call = unpack_fingerprint(fingerprint);
  const Words words = words_of(call);
  if (call.is_barrier) return "barrier()";
  std::string text = words.collective + "(" + words.dtype;
  if (is_reducing(call.collective)) text += ", " + words.op;
  if (has_root(call.collective)) text += ", root " + words.root;
  if (call.collective != Collective::AllToAll) text += ", " + words.count + " elements";
  return text + ")";
}

std::string describe_mismatch(uint64_t sequence, int own_rank, const Fingerprint& own,
                              int peer_rank, const Fingerprint& peer) {
  const Words a = words_of(unpack_fingerprint(own));
  const Words b = words_of(unpack_fingerprint(peer));
  std::string text =
      fmt::format("operation {} differs between rank {} and rank {}: {} against {}:", sequence,
                  own_rank, peer_rank, describe_call(own), describe_call(peer));
  const auto column = [&](const char* name, const std::string& left, const std::string& right) {
    if (left != right) text += fmt::format(" {} {} against {},", name, left, right);
  };
  column("collective", a.collective, b.collective);
  column("dtype", a.dtype, b.dtype);
  column("op", a.op, b.op);
  column("root", a.root, b.root);
  column("count", a.count, b.count);
  column("lengths of the ranks' blocks", a.lengths, b.lengths);
  column("plan", a.plan, b.plan);
  text.back() = ';';
  return text + " all ranks must make the same calls in the same order";
}

}  // namespace mccl
