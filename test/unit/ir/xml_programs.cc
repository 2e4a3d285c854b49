#include "xml_programs.h"

#include <algorithm>

#include "base/dtype.h"
#include "ir/opcode.h"

namespace mccl {

Program make_two_rank_ring() {
  Program program;
  program.name = "all_reduce_ring";
  program.chunk_count = 2;
  for (int rank = 0; rank < 2; ++rank) {
    const int peer = 1 - rank;
    Lane lane{peer, peer, 0, {}};
    lane.steps.push_back({Opcode::Send, {{rank, Buffer::Input, rank, 1}}, {}, {}});
    lane.steps.push_back({Opcode::RecvReduceCopySend,
                          {{rank, Buffer::Input, peer, 1}},
                          {{rank, Buffer::Output, peer, 1}},
                          {}});
    lane.steps.push_back({Opcode::Recv, {}, {{rank, Buffer::Output, rank, 1}}, {}});
    program.ranks.push_back({0, {lane}});
  }
  return program;
}

const std::string_view kTwoRankRingText =
    R"(<program name="all_reduce_ring" collective="all_reduce" ranks="2" chunks="2")"
    R"( in_place="true" out_of_place="true">
  <rank id="0" scratch_chunks="0">
    <lane id="0" send="1" recv="1" channel="0">
      <step id="0" op="send" src="i:0"/>
      <step id="1" op="recv_reduce_copy_send" src="i:1" dst="o:1"/>
      <step id="2" op="recv" dst="o:0"/>
    </lane>
  </rank>
  <rank id="1" scratch_chunks="0">
    <lane id="0" send="0" recv="0" channel="0">
      <step id="0" op="send" src="i:1"/>
      <step id="1" op="recv_reduce_copy_send" src="i:0" dst="o:0"/>
      <step id="2" op="recv" dst="o:1"/>
    </lane>
  </rank>
</program>
)";

const std::string_view kTwoRankRingMscclText =
    R"(<algo name="all_reduce_ring" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2")"
    R"( coll="allreduce" inplace="1" outofplace="1" minBytes="0" maxBytes="9223372036854775807">
  <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="-1" cnt="1")"
    R"( depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1")"
    R"( depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="0" cnt="1")"
    R"( depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="-1" cnt="1")"
    R"( depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1")"
    R"( depid="-1" deps="-1" hasdep="0"/>
      <step s="2" type="r" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="1" cnt="1")"
    R"( depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
)";

namespace {

int below(Prng* prng, int bound) {
  return static_cast<int>(prng->below(static_cast<uint64_t>(bound)));
}

Span random_span(Prng* prng, const Program& program, int rank, int count) {
  Span span{rank, Buffer::Input, 0, count};
  span.buffer = static_cast<Buffer>(below(prng, 3));
  int chunks = buffer_chunk_count(program, rank, span.buffer);
  if (chunks == 0) {  // the root alone has this one
    span.buffer = Buffer::Scratch;
    chunks = buffer_chunk_count(program, rank, span.buffer);
  }
  span.index = below(prng, chunks - count + 1);
  return span;
}

Step random_step(Prng* prng, const Program& program, int rank, bool has_fold) {
  Step step;
  const auto opcode_count = static_cast<int>(opcodes().size()) - (has_fold ? 0 : 1);
  step.opcode = static_cast<Opcode>(below(prng, opcode_count));
  const OpcodeRow& row = opcode_row(step.opcode);
  const int count = 1 + below(prng, 2);
  const int source_count = row.reads < 0 ? 1 + below(prng, 4) : row.reads;
  const int destination_count = row.writes < 0 ? 1 + below(prng, 3) : row.writes;
  for (int source = 0; source < source_count; ++source)
    step.sources.push_back(random_span(prng, program, rank, count));
  for (int destination = 0; destination < destination_count; ++destination)
    step.destinations.push_back(random_span(prng, program, rank, count));
  return step;
}

void add_random_dependences(Prng* prng, RankProgram* rank) {
  const auto lane_count = static_cast<int>(rank->lanes.size());
  for (int lane = 0; lane < lane_count; ++lane) {
    for (Step& step : rank->lanes[static_cast<size_t>(lane)].steps) {
      std::vector<StepRef>& refs = step.dependences;
      for (int draw = below(prng, 4); draw > 0; --draw) {
        const int target = below(prng, lane_count);
        const size_t step_count = rank->lanes[static_cast<size_t>(target)].steps.size();
        if (target != lane && step_count > 0)
          refs.push_back({target, below(prng, static_cast<int>(step_count))});
      }
      std::sort(refs.begin(), refs.end());
      refs.erase(std::unique(refs.begin(), refs.end()), refs.end());
    }
  }
}

// Every input has two chunks at least, which random_span() may need.
void make_custom(Prng* prng, Program* program) {
  program->collective = Collective::Custom;
  program->chunk_count = 1;
  program->in_place = false;
  program->out_of_place = true;
  program->contract.resize(program->ranks.size());
  for (CustomRank& promise : program->contract) promise.input_chunk_count = 2 + below(prng, 3);
  for (CustomRank& promise : program->contract) {
    promise.outputs.resize(static_cast<size_t>(2 + below(prng, 3)));
    for (std::vector<Contribution>& wanted : promise.outputs)
      for (int rank = 0; rank < program->rank_count(); ++rank)
        if (below(prng, 2) == 0) wanted.push_back({rank, below(prng, 2)});
  }
}

}  // namespace

Program make_random_program(Prng* prng, bool has_fold) {
  Program program;
  program.name = "random_" + std::to_string(prng->below(1000));
  program.collective = all_collectives()[static_cast<size_t>(
      below(prng, static_cast<int>(all_collectives().size())))];
  program.chunk_count = 2 + below(prng, 5);
  program.in_place = below(prng, 2) == 1;
  program.out_of_place = !program.in_place || below(prng, 2) == 1;
  program.ranks.resize(static_cast<size_t>(2 + below(prng, 3)));
  const int rank_count = program.rank_count();
  if (below(prng, 4) == 0) make_custom(prng, &program);
  for (int rank = 0; rank < rank_count; ++rank) {
    RankProgram& rank_program = program.ranks[static_cast<size_t>(rank)];
    rank_program.scratch_chunk_count = 2 + below(prng, 3);
    rank_program.lanes.resize(static_cast<size_t>(below(prng, 4)));
    for (Lane& lane : rank_program.lanes) {
      lane.send_peer = (rank + 1 + below(prng, rank_count - 1)) % rank_count;
      lane.recv_peer = (rank + 1 + below(prng, rank_count - 1)) % rank_count;
      lane.channel = below(prng, 32);
      for (int step = below(prng, 5); step > 0; --step)
        lane.steps.push_back(random_step(prng, program, rank, has_fold));
    }
    add_random_dependences(prng, &rank_program);
  }
  return program;
}

}  // namespace mccl
