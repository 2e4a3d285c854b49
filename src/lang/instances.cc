// Both layouts are right for every collective whose buffers consist of blocks: they permute the
// chunks inside each block, on all ranks alike, and a collective does the same to every chunk of a
// block. Scratch has no meaning of its own: instance i has the i-th part of it.
//
// In a custom collective every chunk is a block of its own. Blocks then means the i-th part of the
// whole buffer, and that is right only where the contract allows it: one that gives rank 1 all of
// rank 0's input in its order does, one that turns the order round does not.
#include "lang/instances.h"

#include <algorithm>

#include "lang/check.h"

namespace mccl::lang {
namespace {

class Mapping {
 public:
  Mapping(const Recording& recording, InstanceLayout layout)
      : shape_(recording.shape), instance_count_(recording.instance_count), layout_(layout) {}

  // Where the chunk `first` behind the start of a span is in instance 0.
  int index(const Span& span, int first) const {
    const int index = span.index + first;
    if (span.buffer == Buffer::Scratch) return index;
    if (layout_ == InstanceLayout::Interleaved) return index * instance_count_;
    const int length = block_chunk_count(span.rank, span.buffer);
    return index / length * length * instance_count_ + index % length;
  }

  // How much further a buffer's chunks are in instance 1, and so on. Not for scratch.
  int stride(int rank, Buffer buffer) const {
    return layout_ == InstanceLayout::Interleaved ? 1 : block_chunk_count(rank, buffer);
  }

  // Chunks from `first` on, of at most `count`, that stay neighbours.
  int whole_count(const Span& span, int first) const {
    int count = 1;
    while (first + count < span.count && index(span, first + count) == index(span, first) + count)
      ++count;
    return count;
  }

 private:
  int block_chunk_count(int rank, Buffer buffer) const {
    return shape_.collective == Collective::Custom ? buffer_chunk_count(shape_, rank, buffer)
                                                   : shape_.chunk_count;
  }

  const Program& shape_;
  int instance_count_;
  InstanceLayout layout_;
};

// Calls visit(first, count) for each piece of the statement that has whole spans only.
template <typename Visit>
void for_each_piece(const Recording& recording, const Statement& statement, const Mapping& mapping,
                    const Visit& visit) {
  const int span_count = statement.source_count + statement.destination_count;
  const int chunk_count = recording.spans[statement.first_span].count;
  for (int first = 0; first < chunk_count;) {
    int count = chunk_count - first;
    for (int index = 0; index < span_count; ++index)
      count = std::min(count,
                       mapping.whole_count(recording.spans[statement.first_span + index], first));
    visit(first, count);
    first += count;
  }
}

// The contract in chunks that are cut into one part per instance.
std::vector<CustomRank> cut_contract(const Recording& recording) {
  const int instances = recording.instance_count;
  std::vector<CustomRank> cut;
  for (const CustomRank& promise : recording.shape.contract) {
    CustomRank& finer = cut.emplace_back();
    finer.input_chunk_count = promise.input_chunk_count * instances;
    for (const std::vector<Contribution>& output : promise.outputs)
      for (int part = 0; part < instances; ++part) {
        auto& contributions = finer.outputs.emplace_back(output);
        for (Contribution& contribution : contributions)
          contribution.index = contribution.index * instances + part;
      }
  }
  return cut;
}

// Whether instances over the parts of whole buffers keep a custom collective's contract.
bool may_be_in_blocks(const Recording& recording) {
  const std::vector<CustomRank>& contract = recording.shape.contract;
  const std::vector<CustomRank> cut = cut_contract(recording);
  for (size_t rank = 0; rank < contract.size(); ++rank) {
    const size_t length = contract[rank].outputs.size();
    for (size_t place = 0; place < cut[rank].outputs.size(); ++place) {
      if (cut[rank].outputs[place].empty()) continue;
      std::vector<Contribution> given = contract[rank].outputs[place % length];
      for (Contribution& contribution : given)
        contribution.index += static_cast<int>(place / length) *
                              contract[static_cast<size_t>(contribution.rank)].input_chunk_count;
      if (given != cut[rank].outputs[place]) return false;
    }
  }
  return true;
}

int64_t piece_count(const Recording& recording, InstanceLayout layout) {
  const Mapping mapping(recording, layout);
  int64_t pieces = 0;
  for (const Statement& statement : recording.statements)
    for_each_piece(recording, statement, mapping, [&](int, int) { ++pieces; });
  return pieces;
}

InstanceLayout choose_layout(const Recording& recording) {
  if (recording.shape.collective == Collective::Custom && !may_be_in_blocks(recording))
    return InstanceLayout::Interleaved;
  const InstanceLayout other = recording.layout == InstanceLayout::Interleaved
                                   ? InstanceLayout::Blocks
                                   : InstanceLayout::Interleaved;
  return piece_count(recording, other) < piece_count(recording, recording.layout)
             ? other
             : recording.layout;
}

}  // namespace

Recording first_instance(const Recording& recording) {
  Recording instance = recording;
  instance.layout = choose_layout(recording);
  if (recording.shape.collective == Collective::Custom)
    instance.shape.contract = cut_contract(recording);
  else
    instance.shape.chunk_count *= recording.instance_count;
  instance.spans.clear();
  instance.statements.clear();
  const Mapping mapping(recording, instance.layout);
  for (const Statement& statement : recording.statements)
    for_each_piece(recording, statement, mapping, [&](int first, int count) {
      Statement piece = statement;
      piece.first_span = instance.spans.count();
      for (int index = 0; index < statement.source_count + statement.destination_count; ++index) {
        const Span& span = recording.spans[statement.first_span + index];
        instance.spans.push_back({span.rank, span.buffer, mapping.index(span, first), count});
      }
      instance.statements.push_back(piece);
    });
  return instance;
}

Status add_instances(const Recording& original, InstanceLayout layout, Program& program,
                     StepLines& lines) {
  const int instances = original.instance_count;
  const Mapping mapping(original, layout);
  int channels = 1;
  int64_t scratch_max = 0;
  for (const RankProgram& rank : program.ranks) {
    scratch_max = std::max(scratch_max, int64_t{rank.scratch_chunk_count} * instances);
    for (const Lane& lane : rank.lanes) channels = std::max(channels, lane.channel + 1);
  }
  const auto refuse = [&](const std::string& text) {
    return Status(StatusCode::InvalidArgument,
                  program.name + ": " + std::to_string(instances) + " instances need " + text);
  };
  if (int64_t{channels} * instances > kChannelMax + 1)
    return refuse(std::to_string(int64_t{channels} * instances) + " channels, more than " +
                  std::to_string(kChannelMax + 1));
  if (scratch_max > kScratchChunksMax)
    return refuse(std::to_string(scratch_max) + " scratch chunks of a rank, more than " +
                  std::to_string(kScratchChunksMax));
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    RankProgram& single = program.ranks[rank];
    std::vector<Lane> lanes;
    std::vector<std::vector<SourceLine>> lane_lines;
    for (size_t number = 0; number < single.lanes.size(); ++number)
      for (int instance = 0; instance < instances; ++instance) {
        Lane& lane = lanes.emplace_back(single.lanes[number]);
        lane.channel += instance * channels;
        for (Step& step : lane.steps) {
          for (auto* spans : {&step.sources, &step.destinations})
            for (Span& span : *spans)
              span.index += instance * (span.buffer == Buffer::Scratch
                                            ? single.scratch_chunk_count
                                            : mapping.stride(span.rank, span.buffer));
          for (StepRef& ref : step.dependences) ref.lane = ref.lane * instances + instance;
        }
        lane_lines.push_back(lines[rank][number]);
      }
    single.lanes = std::move(lanes);
    single.scratch_chunk_count *= instances;
    lines[rank] = std::move(lane_lines);
  }
  return Status::ok();
}

}  // namespace mccl::lang
