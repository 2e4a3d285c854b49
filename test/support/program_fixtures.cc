#include "support/program_fixtures.h"

namespace mccl {
namespace {

Program make_program(std::string name, Collective collective, int rank_count, int chunk_count) {
  Program program;
  program.name = std::move(name);
  program.collective = collective;
  program.chunk_count = chunk_count;
  program.ranks.resize(static_cast<size_t>(rank_count));
  return program;
}

Step make_step(Opcode opcode, std::vector<Span> sources, std::vector<Span> destinations,
               std::vector<StepRef> dependences = {}) {
  return {opcode, std::move(sources), std::move(destinations), std::move(dependences)};
}

Lane make_lane(int send_peer, int recv_peer, std::vector<Step> steps) {
  return {send_peer, recv_peer, 0, std::move(steps)};
}

}  // namespace

Span input_span(int rank, int index, int count) {
  return {rank, Buffer::Input, index, count};
}
Span output_span(int rank, int index, int count) {
  return {rank, Buffer::Output, index, count};
}
Span scratch_span(int rank, int index, int count) {
  return {rank, Buffer::Scratch, index, count};
}

Program make_ring_all_reduce(int rank_count) {
  const int n = rank_count;
  Program program = make_program("ring_all_reduce", Collective::AllReduce, n, n);
  for (int rank = 0; rank < n; ++rank) {
    auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    if (n == 1) {
      lanes.push_back(
          make_lane(-1, -1, {make_step(Opcode::Copy, {input_span(0, 0)}, {output_span(0, 0)})}));
      break;
    }
    Lane lane = make_lane((rank + 1) % n, (rank + n - 1) % n, {});
    for (int hop = 0; hop <= 2 * n - 2; ++hop) {
      const int chunk = (rank + 2 * n - hop) % n;
      const Span in = input_span(rank, chunk);
      const Span out = output_span(rank, chunk);
      if (hop == 0)
        lane.steps.push_back(make_step(Opcode::Send, {in}, {}));
      else if (hop < n - 1)
        lane.steps.push_back(make_step(Opcode::RecvReduceSend, {in}, {}));
      else if (hop == n - 1)
        lane.steps.push_back(make_step(Opcode::RecvReduceCopySend, {in}, {out}));
      else if (hop < 2 * n - 2)
        lane.steps.push_back(make_step(Opcode::RecvCopySend, {}, {out}));
      else
        lane.steps.push_back(make_step(Opcode::Recv, {}, {out}));
    }
    lanes.push_back(std::move(lane));
  }
  return program;
}

Program make_all_pairs_all_reduce(int rank_count) {
  const int n = rank_count;
  Program program = make_program("all_pairs_all_reduce", Collective::AllReduce, n, n);
  for (int rank = 0; rank < n; ++rank) {
    RankProgram& rank_program = program.ranks[static_cast<size_t>(rank)];
    rank_program.scratch_chunk_count = n - 1;
    const auto slot = [&](int peer) { return peer < rank ? peer : peer - 1; };
    Step fold = make_step(Opcode::Fold, {}, {output_span(rank, rank)});
    for (int peer = 0; peer < n; ++peer)
      fold.sources.push_back(peer == rank ? input_span(rank, rank)
                                          : scratch_span(rank, slot(peer)));
    for (int i = 0; i < n - 1; ++i) fold.dependences.push_back({n + i, 0});
    rank_program.lanes.push_back(make_lane(-1, -1, {fold}));
    for (int distance = 1; distance < n; ++distance) {
      const int peer = (rank + distance) % n;
      rank_program.lanes.push_back(
          make_lane(peer, -1,
                    {make_step(Opcode::Send, {input_span(rank, peer)}, {}),
                     make_step(Opcode::Send, {output_span(rank, rank)}, {}, {{0, 0}})}));
    }
    for (int distance = 1; distance < n; ++distance) {
      const int peer = (rank + n - distance) % n;
      rank_program.lanes.push_back(
          make_lane(-1, peer,
                    {make_step(Opcode::Recv, {}, {scratch_span(rank, slot(peer))}),
                     make_step(Opcode::Recv, {}, {output_span(rank, peer)})}));
    }
  }
  return program;
}

Program make_recursive_doubling_all_reduce(int rank_count) {
  const int n = rank_count;
  Program program = make_program("recursive_doubling_all_reduce", Collective::AllReduce, n, 1);
  int power = 1;
  while (power * 2 <= n) power *= 2;
  for (int rank = 0; rank < n; ++rank) {
    auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    const Span in = input_span(rank, 0);
    const Span out = output_span(rank, 0);
    if (rank >= power) {
      const int peer = rank - power;
      lanes.push_back(make_lane(
          peer, peer, {make_step(Opcode::Send, {in}, {}), make_step(Opcode::Recv, {}, {out})}));
      continue;
    }
    const bool has_extra = rank + power < n;
    const int extra = has_extra ? rank + power : -1;
    lanes.push_back(make_lane(-1, extra,
                              {has_extra ? make_step(Opcode::RecvReduceCopy, {in}, {out})
                                         : make_step(Opcode::Copy, {in}, {out})}));
    StepRef last = {0, 0};
    for (int distance = 1; distance < power; distance *= 2) {
      const int peer = rank ^ distance;
      lanes.push_back(make_lane(peer, peer,
                                {make_step(Opcode::Send, {out}, {}, {last}),
                                 make_step(Opcode::RecvReduceCopy, {out}, {out})}));
      last = {static_cast<int>(lanes.size()) - 1, 1};
    }
    if (has_extra)
      lanes.push_back(make_lane(extra, -1, {make_step(Opcode::Send, {out}, {}, {last})}));
  }
  return program;
}

Program make_ring_all_gather(int rank_count, int chunk_count) {
  const int n = rank_count;
  Program program = make_program("ring_all_gather", Collective::AllGather, n, chunk_count);
  for (int rank = 0; rank < n; ++rank) {
    auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    const Span in = input_span(rank, 0, chunk_count);
    const auto block = [&](int number) {
      return output_span(rank, number * chunk_count, chunk_count);
    };
    lanes.push_back(make_lane(-1, -1, {make_step(Opcode::Copy, {in}, {block(rank)})}));
    if (n == 1) break;
    Lane lane = make_lane((rank + 1) % n, (rank + n - 1) % n, {make_step(Opcode::Send, {in}, {})});
    for (int hop = 1; hop < n; ++hop)
      lane.steps.push_back(make_step(hop < n - 1 ? Opcode::RecvCopySend : Opcode::Recv, {},
                                     {block((rank + n - hop) % n)}));
    lanes.push_back(std::move(lane));
  }
  return program;
}

Program make_binomial_broadcast(int rank_count, int chunk_count) {
  const int n = rank_count;
  Program program = make_program("binomial_broadcast", Collective::Broadcast, n, chunk_count);
  for (int rank = 0; rank < n; ++rank) {
    auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    const Span in = input_span(rank, 0, chunk_count);
    const Span out = output_span(rank, 0, chunk_count);
    int first_distance = 1;
    while (first_distance <= rank) first_distance *= 2;
    if (rank == 0)
      lanes.push_back(make_lane(-1, -1, {make_step(Opcode::Copy, {in}, {out})}));
    else
      lanes.push_back(
          make_lane(-1, rank - first_distance / 2, {make_step(Opcode::Recv, {}, {out})}));
    for (int distance = first_distance; rank + distance < n; distance *= 2)
      lanes.push_back(
          make_lane(rank + distance, -1, {make_step(Opcode::Send, {out}, {}, {{0, 0}})}));
  }
  return program;
}

Program make_ring_reduce_scatter(int rank_count) {
  const int n = rank_count;
  Program program = make_program("ring_reduce_scatter", Collective::ReduceScatter, n, 1);
  for (int rank = 0; rank < n; ++rank) {
    auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    const Span out = output_span(rank, 0);
    if (n == 1) {
      lanes.push_back(make_lane(-1, -1, {make_step(Opcode::Copy, {input_span(0, 0)}, {out})}));
      break;
    }
    Lane lane = make_lane((rank + 1) % n, (rank + n - 1) % n, {});
    for (int hop = 0; hop < n; ++hop) {
      const Span in = input_span(rank, (rank + 2 * n - 1 - hop) % n);
      if (hop == 0)
        lane.steps.push_back(make_step(Opcode::Send, {in}, {}));
      else if (hop < n - 1)
        lane.steps.push_back(make_step(Opcode::RecvReduceSend, {in}, {}));
      else
        lane.steps.push_back(make_step(Opcode::RecvReduceCopy, {in}, {out}));
    }
    lanes.push_back(std::move(lane));
  }
  return program;
}

Program make_direct_reduce_scatter(int rank_count) {
  const int n = rank_count;
  Program program = make_program("direct_reduce_scatter", Collective::ReduceScatter, n, 1);
  for (int rank = 0; rank < n; ++rank) {
    RankProgram& rank_program = program.ranks[static_cast<size_t>(rank)];
    rank_program.scratch_chunk_count = n - 1;
    const auto slot = [&](int peer) { return peer < rank ? peer : peer - 1; };
    Step fold = make_step(Opcode::Fold, {}, {output_span(rank, 0)});
    for (int peer = 0; peer < n; ++peer)
      fold.sources.push_back(peer == rank ? input_span(rank, rank)
                                          : scratch_span(rank, slot(peer)));
    for (int i = 0; i < n - 1; ++i) fold.dependences.push_back({n + i, 0});
    rank_program.lanes.push_back(make_lane(-1, -1, {fold}));
    for (int distance = 1; distance < n; ++distance) {
      const int peer = (rank + distance) % n;
      rank_program.lanes.push_back(
          make_lane(peer, -1, {make_step(Opcode::Send, {input_span(rank, peer)}, {})}));
    }
    for (int distance = 1; distance < n; ++distance) {
      const int peer = (rank + n - distance) % n;
      rank_program.lanes.push_back(
          make_lane(-1, peer, {make_step(Opcode::Recv, {}, {scratch_span(rank, slot(peer))})}));
    }
  }
  return program;
}

Program make_pairwise_all_to_all(int rank_count, int chunk_count) {
  const int n = rank_count;
  Program program = make_program("pairwise_all_to_all", Collective::AllToAll, n, chunk_count);
  program.in_place = false;
  for (int rank = 0; rank < n; ++rank) {
    auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    const auto in = [&](int peer) { return input_span(rank, peer * chunk_count, chunk_count); };
    const auto out = [&](int peer) { return output_span(rank, peer * chunk_count, chunk_count); };
    lanes.push_back(make_lane(-1, -1, {make_step(Opcode::Copy, {in(rank)}, {out(rank)})}));
    for (int distance = 1; distance < n; ++distance) {
      const int to = (rank + distance) % n;
      const int from = (rank + n - distance) % n;
      lanes.push_back(make_lane(to, -1, {make_step(Opcode::Send, {in(to)}, {})}));
      lanes.push_back(make_lane(-1, from, {make_step(Opcode::Recv, {}, {out(from)})}));
    }
  }
  return program;
}

Program make_direct_gather(int rank_count, int chunk_count) {
  const int n = rank_count;
  Program program = make_program("direct_gather", Collective::Gather, n, chunk_count);
  for (int rank = 0; rank < n; ++rank) {
    const Span in = input_span(rank, 0, chunk_count);
    const Span out = output_span(0, rank * chunk_count, chunk_count);
    auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    auto& root_lanes = program.ranks[0].lanes;
    if (rank == 0) {
      root_lanes.push_back(make_lane(-1, -1, {make_step(Opcode::Copy, {in}, {out})}));
      continue;
    }
    lanes.push_back(make_lane(0, -1, {make_step(Opcode::Send, {in}, {})}));
    root_lanes.push_back(make_lane(-1, rank, {make_step(Opcode::Recv, {}, {out})}));
  }
  return program;
}

const std::vector<ProgramFixture>& program_fixtures() {
  static const std::vector<ProgramFixture> fixtures = {
      {"ring_all_reduce", &make_ring_all_reduce},
      {"all_pairs_all_reduce", &make_all_pairs_all_reduce},
      {"recursive_doubling_all_reduce", &make_recursive_doubling_all_reduce},
      {"ring_all_gather", [](int rank_count) { return make_ring_all_gather(rank_count, 2); }},
      {"binomial_broadcast", [](int rank_count) { return make_binomial_broadcast(rank_count, 2); }},
      {"ring_reduce_scatter", &make_ring_reduce_scatter},
      {"direct_reduce_scatter", &make_direct_reduce_scatter},
      {"pairwise_all_to_all",
       [](int rank_count) { return make_pairwise_all_to_all(rank_count, 2); }},
      {"direct_gather", [](int rank_count) { return make_direct_gather(rank_count, 2); }},
  };
  return fixtures;
}

}  // namespace mccl
