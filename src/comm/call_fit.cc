// In place, output and input share the memory that input_alias() names. A program that claims only
// that serves other calls in the output's memory, to which the input is copied first; one that
// claims only the other is given a copy of what is shared.
// Tests: program_calls_test.cc, every collective in both claims.
#include "comm/call_fit.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/collective.h"

namespace mccl {
namespace {

// Input and output block that share memory in place; -1 where this rank has none.
struct AliasedBlocks {
  int input = -1;
  int output = -1;
};

AliasedBlocks aliased_blocks(const Call& call, int seen_rank) {
  const bool has_both = !call.buffers.input.empty() && !call.buffers.output.empty();
  if (!has_both) return {};
  switch (call.collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::Reduce:
      return {0, 0};
    case Collective::AllGather:
    case Collective::Gather:
      return {0, seen_rank};
    case Collective::ReduceScatter:
    case Collective::Scatter:
      return {seen_rank, 0};
    case Collective::AllToAll:
    case Collective::Custom:
      return {};
  }
  return {};
}

struct Copy {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};

struct Copies {
  std::vector<Copy> list;
  std::vector<std::shared_ptr<std::byte[]>> memory;
};

void run(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies)
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
}

class Adapter {
 public:
  Adapter(const Program& program, int seen_rank, Call& call)
      : program_(program),
        call_(call),
        seen_rank_(seen_rank),
        element_bytes_(dtype_bytes(call.dtype)),
        aliased_(aliased_blocks(call, seen_rank)),
        copies_(std::make_shared<Copies>()) {}

  std::shared_ptr<const Copies> adapt() {
    if (program_.out_of_place)
      separate();
    else
      join();
    return copies_;
  }

  int64_t copied_bytes() const {
    int64_t bytes = 0;
    for (const Copy& copy : copies_->list) bytes += static_cast<int64_t>(copy.bytes);
    return bytes;
  }

 private:
  Block& input(int index) { return call_.buffers.input[static_cast<size_t>(index)]; }
  Block& output(int index) { return call_.buffers.output[static_cast<size_t>(index)]; }
  size_t bytes_of(const Block& block) const {
    return static_cast<size_t>(block.count) * element_bytes_;
  }

  // The block's place in memory of the call's own, which is filled before the program starts.
  void copy_input(Block& block) {
    const size_t bytes = bytes_of(block);
    std::shared_ptr<std::byte[]> memory(new std::byte[std::max<size_t>(bytes, 1)]);
    copies_->list.push_back({memory.get(), block.data, bytes});
    block.data = memory.get();
    copies_->memory.push_back(std::move(memory));
  }

  void separate() {
    if (aliased_.input < 0) return;
    // What no rank reads is not copied: the input of a broadcast on others than the root.
    if (!holds_input(program_, seen_rank_)) return;
    if (input(aliased_.input).data == output(aliased_.output).data)
      copy_input(input(aliased_.input));
  }

  void join() {
    // The verifier knows that of its input no program writes more than this.
    if (aliased_.input < 0) return;
    Block& from = input(aliased_.input);
    const Block& to = output(aliased_.output);
    if (from.data == to.data) return;
    copies_->list.push_back({to.data, from.data, bytes_of(from)});
    from.data = to.data;
  }

  const Program& program_;
  Call& call_;
  int seen_rank_;
  size_t element_bytes_;
  AliasedBlocks aliased_;
  std::shared_ptr<Copies> copies_;
};

std::vector<StandIn::Range> ranges_of(const std::vector<Block>& blocks, size_t element_bytes) {
  std::vector<StandIn::Range> ranges;
  for (const Block& block : blocks)
    ranges.push_back({block.data, block.count * static_cast<int64_t>(element_bytes)});
  return ranges;
}

}  // namespace

CallFacts facts_of(const Call& call, int seen_rank) {
  CallFacts facts{.dtype = call.dtype, .op = call.op, .block_count = call.count_max};
  for (const std::vector<Block>* blocks : {&call.buffers.input, &call.buffers.output})
    for (const Block& block : *blocks)
      facts.has_equal_blocks = facts.has_equal_blocks && block.count == call.count_max;
  const AliasedBlocks aliased = aliased_blocks(call, seen_rank);
  facts.is_in_place =
      aliased.input >= 0 && call.buffers.input[static_cast<size_t>(aliased.input)].data ==
                                call.buffers.output[static_cast<size_t>(aliased.output)].data;
  return facts;
}

int64_t copy_to_fit(const Program& program, int seen_rank, Call& call,
                    std::shared_ptr<const StandIn>& stand_in) {
  MCCL_CHECK(!program.in_place || !program.out_of_place);
  auto fitted = std::make_shared<StandIn>();
  if (stand_in != nullptr) {
    *fitted = *stand_in;
  } else {
    fitted->reads = ranges_of(call.buffers.input, dtype_bytes(call.dtype));
    fitted->writes = ranges_of(call.buffers.output, dtype_bytes(call.dtype));
  }
  Adapter adapter(program, seen_rank, call);
  const std::shared_ptr<const Copies> copies = adapter.adapt();
  if (copies->list.empty()) return 0;
  fitted->copy_in = [copies, inner = std::move(fitted->copy_in)] {
    if (inner) MCCL_RETURN_IF_ERROR(inner());
    run(copies->list);
    return Status::ok();
  };
  stand_in = std::move(fitted);
  return adapter.copied_bytes();
}

}  // namespace mccl
