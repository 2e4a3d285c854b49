// Runs the calls that a seed draws, and compares memory with what they must leave.
#include "sim/seed_run.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "sim/seed_calls.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

void store(DataType dtype, Value value, std::byte* element) {
  if (dtype == DataType::Int64) {
    std::memcpy(element, &value, sizeof(value));
    return;
  }
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const auto half = static_cast<uint16_t>(bits >> 16);
  if (dtype == DataType::Float32)
    std::memcpy(element, &bits, sizeof(bits));
  else
    std::memcpy(element, &half, sizeof(half));
}

std::vector<std::byte> to_bytes(DataType dtype, const std::vector<Value>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (size_t index = 0; index < values.size(); ++index)
    store(dtype, values[index], bytes.data() + index * dtype_bytes(dtype));
  return bytes;
}

class SeedRun {
 public:
  SeedRun(uint64_t seed, const std::shared_ptr<ProgramProver>& prover)
      : plan_(draw_seed(seed)), world_(plan_.world) {
    plan_.world.group.prover = prover;
    for (int index = 0; index < world_.communicator_count; ++index)
      for (const DataType dtype : kSeedTypes)
        for (int rank = 0; rank < world_.rank_count; ++rank)
          arenas_.push_back(to_bytes(
              dtype, plan_.initial[arena_index(world_, static_cast<size_t>(index), dtype, rank)]));
    for (const SeedMessage& message : plan_.messages) received_.emplace_back(message.data.size());
  }

  SeedOutcome run() {
    SimGroup group(world_.rank_count, world_.options, world_.group);
    for (int index = 1; index < world_.communicator_count; ++index)
      group.add_communicator("second");
    const size_t total =
        plan_.calls.size() * static_cast<size_t>(world_.rank_count) + plan_.messages.size() * 2;
    post_messages(group);
    for (const SeedCall& call : plan_.calls)
      for (int rank = 0; rank < world_.rank_count; ++rank)
        group.world().at(call.post_at[static_cast<size_t>(rank)], rank,
                         [this, &group, &call, rank] { post(group, call, rank); });
    const bool is_done = group.world().run([&] { return completed_ == total; });
    if (!is_done) fail(std::to_string(total - completed_) + " works never end");
    // Nothing may be left in any stream.
    group.world().run([] { return false; });
    for (int rank = 0; rank < world_.rank_count; ++rank)
      if (is_done && group.communicator(rank).stats().parked_bytes != 0)
        fail("rank " + std::to_string(rank) + " still holds messages");
    compare();
    return {failure_, digest_};
  }

 private:
  void fail(const std::string& text) {
    if (failure_.empty()) failure_ = text;
  }

  void mix(uint64_t value) { digest_ = (digest_ ^ value) * 0x9e3779b97f4a7c15ULL + 1; }

  std::byte* at(const SeedCall& call, int rank, int64_t element) {
    return arenas_[arena_index(world_, call.communicator, call.dtype, rank)].data() +
           static_cast<size_t>(element) * dtype_bytes(call.dtype);
  }

  CallOptions counted(SimGroup& group, int rank) {
    CallOptions options;
    options.on_complete = [this, &group, rank](const Status& status) {
      if (!status.is_ok()) fail("rank " + std::to_string(rank) + ": " + status.to_string());
      mix(static_cast<uint64_t>(group.world().clock().now()) * 8 + static_cast<uint64_t>(rank));
      ++completed_;
    };
    return options;
  }

  void check_posted(const Result<std::shared_ptr<Work>>& work, int rank) {
    if (!work.is_ok()) fail("rank " + std::to_string(rank) + ": " + work.status().to_string());
  }

  void post_messages(SimGroup& group) {
    for (size_t index = 0; index < plan_.messages.size(); ++index) {
      const SeedMessage& message = plan_.messages[index];
      const auto count = static_cast<int64_t>(message.data.size());
      group.world().at(message.send_at, message.from, [this, &group, &message, count] {
        check_posted(group.communicator(message.from, message.communicator)
                         .send(message.data.data(), count, DataType::Int32, message.to, message.tag,
                               counted(group, message.from)),
                     message.from);
      });
      group.world().at(message.receive_at, message.to, [this, &group, &message, count, index] {
        Communicator& communicator = group.communicator(message.to, message.communicator);
        int32_t* data = received_[index].data();
        check_posted(message.is_from_anybody
                         ? communicator.recv_any_source(data, count, DataType::Int32, message.tag,
                                                        counted(group, message.to))
                         : communicator.recv(data, count, DataType::Int32, message.from,
                                             message.tag, counted(group, message.to)),
                     message.to);
      });
    }
  }

  // The blocks of a buffer at the call's range on this rank.
  template <typename UserBlock>
  std::vector<UserBlock> blocks_at(const SeedCall& call, int rank, bool is_input) {
    const Range& range = (is_input ? call.inputs : call.outputs)[static_cast<size_t>(rank)];
    std::vector<UserBlock> blocks;
    int64_t first = range.first;
    for (const int block : blocks_of(call, world_.rank_count, rank, is_input)) {
      const int64_t count = call.block_counts[static_cast<size_t>(block)];
      blocks.push_back({at(call, rank, first), count});
      first += count;
    }
    return blocks;
  }

  void post(SimGroup& group, const SeedCall& call, int rank) {
    check_posted(
        post_call(group.communicator(rank, call.communicator), call, rank, counted(group, rank)),
        rank);
  }

  Result<std::shared_ptr<Work>> post_call(Communicator& communicator, const SeedCall& call,
                                          int rank, CallOptions options) {
    void* to = at(call, rank, call.outputs[static_cast<size_t>(rank)].first);
    const void* from = at(call, rank, call.inputs[static_cast<size_t>(rank)].first);
    const int64_t count = call.block_counts.front();
    const auto inputs = [&] { return blocks_at<InputBlock>(call, rank, true); };
    const auto outputs = [&] { return blocks_at<OutputBlock>(call, rank, false); };
    switch (call.collective) {
      case Collective::AllReduce:
        return communicator.all_reduce(from, to, count, call.dtype, call.op, std::move(options));
      case Collective::Broadcast:
        return communicator.broadcast(to, count, call.dtype, call.root, std::move(options));
      case Collective::AllGather:
        return communicator.all_gather(from, outputs(), call.dtype, std::move(options));
      case Collective::ReduceScatter:
        return communicator.reduce_scatter(inputs(), to, call.dtype, call.op, std::move(options));
      case Collective::Reduce:
        return communicator.reduce(from, to, count, call.dtype, call.op, call.root,
                                   std::move(options));
      case Collective::Gather:
        return communicator.gather(from, count, outputs(), call.dtype, call.root,
                                   std::move(options));
      case Collective::Scatter:
        return communicator.scatter(inputs(), to, count, call.dtype, call.root, std::move(options));
      case Collective::AllToAll:
        return communicator.all_to_all(inputs(), outputs(), call.dtype, std::move(options));
      case Collective::Custom:
        break;
    }
    return Status(StatusCode::Internal, "no such collective");
  }

  void compare() {
    for (size_t index = 0; index < received_.size(); ++index) {
      if (received_[index] != plan_.messages[index].data)
        fail("message " + std::to_string(index) + " is wrong");
      for (const int32_t value : received_[index]) mix(static_cast<uint64_t>(value));
    }
    for (int index = 0; index < world_.communicator_count; ++index)
      for (const DataType dtype : kSeedTypes)
        for (int rank = 0; rank < world_.rank_count; ++rank) {
          const size_t arena = arena_index(world_, static_cast<size_t>(index), dtype, rank);
          const std::vector<std::byte> expected = to_bytes(dtype, plan_.final[arena]);
          const std::vector<std::byte>& found = arenas_[arena];
          uint64_t word = 0;
          for (size_t byte = 0; byte < found.size(); byte += sizeof(word)) {
            std::memcpy(&word, found.data() + byte, std::min(sizeof(word), found.size() - byte));
            mix(word);
          }
          const auto differing = std::mismatch(found.begin(), found.end(), expected.begin()).first;
          if (differing != found.end())
            fail(std::string(dtype_name(dtype)) + " element " +
                 std::to_string((differing - found.begin()) /
                                static_cast<ptrdiff_t>(dtype_bytes(dtype))) +
                 " of rank " + std::to_string(rank) + ", communicator " + std::to_string(index) +
                 " is wrong");
        }
  }

  SeedPlan plan_;
  const SeedWorld& world_;
  std::vector<std::vector<std::byte>> arenas_;
  std::vector<std::vector<int32_t>> received_;  // by message
  size_t completed_ = 0;
  std::string failure_;
  uint64_t digest_ = 0;
};

}  // namespace

SeedOutcome run_seed(uint64_t seed, const std::shared_ptr<ProgramProver>& prover) {
  return SeedRun(seed, prover).run();
}

}  // namespace mccl
