// Two-level ring all-reduce. Ranks stand in groups of g neighbours (the last group may be smaller),
// and the buffer is cut into g shares. Inside each group a ring reduces every share onto one owner;
// the owners of a share, one in each group, sum it around a ring of their own, one chunk per group;
// then the rings inside the groups hand the sums to everyone. A group with fewer members than
// shares gives some of them several.
//
// Cost: about 2(g-1) + 2(n/g-1) hops instead of 2(n-1), for nearly the same bytes; no scratch. The
// three phases have lanes of their own, so that they overlap slice by slice. Where groups are
// switches, an uplink carries no more than one port does.
// Each chunk's sum is made once, by one owner in a ring: all ranks end with equal bits.
// Reference: Mikami et al. 2018, "Massively distributed SGD: ImageNet/ResNet-50 training in a
// flash" (2D-torus all-reduce).
// Golden case: test/golden/algorithms/all_reduce_two_level_ring.txt.
#include <fmt/format.h>

#include <algorithm>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

constexpr Placement kInnerSums = {.channel = 0, .send_lane = -1, .recv_lane = -1};
constexpr Placement kInnerResults = {.channel = 1, .send_lane = -1, .recv_lane = -1};
// Of two neighbouring groups one at least is full: no two shares travel between the same owners.
constexpr Placement kOuter = {.channel = 2, .send_lane = -1, .recv_lane = -1};

// Who stands where. Members and shares are numbered within a group.
struct Groups {
  int rank_count = 1;
  int share_count = 1;  // = members of a full group

  int count() const { return (rank_count + share_count - 1) / share_count; }
  int member_count(int group) const {
    return std::min(share_count, rank_count - group * share_count);
  }
  int least_member_count() const { return member_count(count() - 1); }
  int rank(int group, int member) const { return group * share_count + member; }
  int owner(int group, int share) const { return rank(group, share % member_count(group)); }
  int owned_count(int group, int member) const {
    const int members = member_count(group);
    return (share_count - member % members + members - 1) / members;
  }
};

// Where a group's sum of a chunk lies: nothing was added where the owner is alone.
Chunk group_sum(const ProgramBuilder& rings, const Groups& groups, int group, int share,
                int chunk) {
  const int owner = groups.owner(group, share);
  return groups.member_count(group) == 1 ? rings.input(owner, chunk) : rings.output(owner, chunk);
}

void reduce_inside(ProgramBuilder& rings, const Groups& groups, int group, int share) {
  const int members = groups.member_count(group);
  const int first = share * groups.count();
  Chunk value = rings.input(groups.rank(group, (share + 1) % members), first, groups.count());
  for (int step = 2; step <= members; ++step) {
    const int rank = groups.rank(group, (share + step) % members);
    value = rings.reduce(value, rings.input(rank, first, groups.count()),
                         rings.output(rank, first, groups.count()), kInnerSums);
  }
}

// Chunk k of the share starts in group k.
void reduce_between(ProgramBuilder& rings, const Groups& groups, int share) {
  const int group_count = groups.count();
  for (int start = 0; start < group_count; ++start) {
    const int chunk = share * group_count + start;
    Chunk value = group_sum(rings, groups, start, share, chunk);
    for (int step = 1; step < group_count; ++step) {
      const int group = (start + step) % group_count;
      value = rings.reduce(value, group_sum(rings, groups, group, share, chunk),
                           rings.output(groups.owner(group, share), chunk), kOuter);
    }
    for (int step = 0; step < group_count - 1; ++step) {
      const int rank = groups.owner((start + step) % group_count, share);
      value = rings.copy(value, rings.output(rank, chunk), kOuter);
    }
  }
}

void gather_inside(ProgramBuilder& rings, const Groups& groups, int group, int share) {
  const int members = groups.member_count(group);
  const int first = share * groups.count();
  Chunk value = rings.output(groups.owner(group, share), first, groups.count());
  for (int step = 1; step < members; ++step) {
    const int rank = groups.rank(group, (share + step) % members);
    value = rings.copy(value, rings.output(rank, first, groups.count()), kInnerResults);
  }
}

Result<Program> build_in_groups(int rank_count, int group_size) {
  const Groups groups{rank_count, std::min(group_size, rank_count)};
  ProgramBuilder rings(fmt::format("all_reduce_two_level_ring:{}", group_size),
                       Collective::AllReduce, rank_count, groups.share_count * groups.count());
  if (rank_count == 1) rings.copy(rings.input(0, 0), rings.output(0, 0));
  for (int group = 0; group < groups.count(); ++group)
    for (int share = 0; share < groups.share_count; ++share)
      reduce_inside(rings, groups, group, share);
  for (int share = 0; share < groups.share_count; ++share) reduce_between(rings, groups, share);
  for (int group = 0; group < groups.count(); ++group)
    for (int share = 0; share < groups.share_count; ++share)
      gather_inside(rings, groups, group, share);
  return rings.lower();
}

// What one rank sends on the stream to its right, inside, both times: the shares but those that
// end, or start, where the stream would bring them.
int inner_message_count(const Groups& groups, int group, int member) {
  const int members = groups.member_count(group);
  if (members == 1) return 0;
  return 2 * groups.share_count - groups.owned_count(group, member) -
         groups.owned_count(group, (member + 1) % members);
}

int outer_message_count(const Groups& groups, int group, int member) {
  return groups.owned_count(group, member) * 2 * (groups.count() - 1);
}

struct Busiest {
  int messages = 0;
  int64_t chunks_moved = 0;
  int64_t chunks_reduced = 0;
  int recv_streams = 0;
};

void add_member(const Groups& groups, int group, int member, Busiest& busiest) {
  const int members = groups.member_count(group);
  const int before = (member + members - 1) % members;
  const int outer = outer_message_count(groups, group, member);
  const int received = inner_message_count(groups, group, before);
  const int inner = std::max(received, inner_message_count(groups, group, member));
  const int inner_reduced =
      members == 1 ? 0 : groups.share_count - groups.owned_count(group, before);
  busiest.messages = std::max(busiest.messages, inner + outer);
  busiest.chunks_moved = std::max(busiest.chunks_moved, int64_t{inner} * groups.count() + outer);
  busiest.chunks_reduced =
      std::max(busiest.chunks_reduced, int64_t{inner_reduced} * groups.count() + outer / 2);
  const int outer_streams = groups.count() > 1 ? groups.owned_count(group, member) : 0;
  busiest.recv_streams = std::max(busiest.recv_streams, (members > 1 ? 2 : 0) + outer_streams);
}

AlgorithmCost cost_in_groups(int rank_count, int group_size) {
  const Groups groups{rank_count, std::min(group_size, rank_count)};
  const int shares = groups.share_count;
  const int last = groups.count() - 1;
  Busiest busiest;
  add_member(groups, 0, 0, busiest);  // all members of full groups are alike
  for (int member = 0; member < groups.member_count(last); ++member)
    add_member(groups, last, member, busiest);
  const int64_t chunks = int64_t{shares} * groups.count();
  const int inner_hops = 2 * (shares - 1);
  const int outer_hops = 2 * last;
  const int64_t outer_chunks = outer_message_count(groups, last, 0);
  AlgorithmCost cost{.hops = inner_hops + outer_hops,
                     .messages = busiest.messages,
                     .recv_streams = busiest.recv_streams,
                     .message_chunks = shares > 1 ? groups.count() : 1,
                     .bytes_moved = {busiest.chunks_moved, chunks},
                     .bytes_reduced = {busiest.chunks_reduced, chunks},
                     .scratch_bytes = {0, 1},
                     .is_pipelined = true,
                     .phases = {}};
  if (inner_hops > 0)
    cost.phases.push_back({.hops = inner_hops,
                           .message_chunks = groups.count(),
                           .bytes_moved = {inner_hops, shares},
                           .bytes_reduced = {shares - 1, shares}});
  if (outer_hops > 0)
    cost.phases.push_back({.hops = outer_hops,
                           .message_chunks = 1,
                           .bytes_moved = {outer_chunks, chunks},
                           .bytes_reduced = {outer_chunks / 2, chunks}});
  return cost;
}

int64_t visit_traffic(int rank_count, int group_size, const TrafficVisitor& visit) {
  const Groups groups{rank_count, std::min(group_size, rank_count)};
  for (int group = 0; group < groups.count(); ++group) {
    const int members = groups.member_count(group);
    for (int member = 0; members > 1 && member < members; ++member)
      visit(groups.rank(group, member), groups.rank(group, (member + 1) % members),
            int64_t{inner_message_count(groups, group, member)} * groups.count());
    for (int share = 0; groups.count() > 1 && share < groups.share_count; ++share)
      visit(groups.owner(group, share), groups.owner((group + 1) % groups.count(), share),
            2 * (groups.count() - 1));
  }
  return int64_t{groups.share_count} * groups.count();
}

// The fewest hops; the planner tries others too.
int default_group_size(int rank_count) {
  int size = 1;
  while (size * size < rank_count) ++size;
  return size;
}

// A member that owns many shares would be the only one at work.
constexpr int kLapsMax = 16;

Status check_group_size(int rank_count, int group_size) {
  if (group_size < 1 || group_size > rank_count)
    return {StatusCode::Unsupported, fmt::format("groups of {}, allowed are 1 to {} for {} ranks",
                                                 group_size, rank_count, rank_count)};
  const Groups groups{rank_count, group_size};
  const int least = groups.least_member_count();
  if ((group_size + least - 1) / least <= kLapsMax) return Status::ok();
  return {StatusCode::Unsupported,
          fmt::format("groups of {} leave {} of {} ranks for the last one, at least {} are needed",
                      group_size, least, rank_count, (group_size + kLapsMax - 1) / kLapsMax)};
}

AlgorithmCost cost(int rank_count) {
  return cost_in_groups(rank_count, default_group_size(rank_count));
}

Result<Program> build(int rank_count) {
  return build_in_groups(rank_count, default_group_size(rank_count));
}

}  // namespace

extern const Algorithm kAllReduceTwoLevelRing;
const Algorithm kAllReduceTwoLevelRing = {.name = "all_reduce_two_level_ring",
                                          .collective = Collective::AllReduce,
                                          .reference = "Mikami et al. 2018",
                                          .rank_count_max = 4096,
                                          .channel_sets = 2,
                                          .reduces_in_rank_order = false,
                                          .cost = &cost,
                                          .build = &build,
                                          .groups = {.default_size = &default_group_size,
                                                     .check_size = &check_group_size,
                                                     .cost = &cost_in_groups,
                                                     .build = &build_in_groups,
                                                     .visit_traffic = &visit_traffic}};

}  // namespace mccl
