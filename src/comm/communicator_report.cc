// What a communicator tells about itself.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithms/catalog.h"
#include "comm/communicator_core.h"
#include "comm/dump.h"

namespace mccl {

CommunicatorStats CommunicatorCore::stats() {
  CommunicatorStats stats;
  stats.rank = rank_;
  stats.rank_count = rank_count();
  stats.host_count = host_count_;
  if (!endpoint_.is_own_process()) return stats;
  endpoint_.driver().with_engine(
      [&] {
        stats.programs = counters_;
        stats.loaded = count_loaded();
        stats.refusals = refusals_;
        stats.operations_posted = group_->queue.posted_count();
        stats.operations_completed = group_->queue.completed_count();
        Transport& transport = endpoint_.engine().transport();
        transport.visit_links([&](const Link& link) {
          stats.bytes_sent += link.bytes_written();
          stats.bytes_received += link.bytes_read();
          stats.write_calls += link.write_calls();
          stats.read_calls += link.read_calls();
        });
        stats.parked_bytes = transport.pool().bytes_out();
        stats.refused_connections = transport.refusals().stranger_count();
      },
      true);
  return stats;
}

std::string CommunicatorCore::start_up_line() const {
  return fmt::format("{} rank{} on {} host{}, {} ({}), profile {}, {} programs", rank_count(),
                     rank_count() == 1 ? "" : "s", host_count_, host_count_ == 1 ? "" : "s",
                     endpoint_.record().peer.address, endpoint_.interface_text(),
                     cost_profile_name(agreement_.table.link.profile), catalog().size());
}

int CommunicatorCore::rank_of(uint64_t process) const {
  const auto found = rank_of_process_.find(process);
  return found == rank_of_process_.end() ? -1 : found->second;
}

std::string CommunicatorCore::name_of(int rank) const {
  return mccl::name_of(rank, agreement_.ranks[static_cast<size_t>(rank)]);
}

bool CommunicatorCore::take_failure() {
  return group_->queue.has_failed() && !std::exchange(has_told_failure_, true);
}

std::string CommunicatorCore::describe_failure() const {
  return fmt::format("{}, rank {}: {}", group_->title, rank_, group_->queue.failure().to_string());
}

std::vector<int> CommunicatorCore::list_peers(const OperationRecord& record) const {
  const int root = unpack_fingerprint(record.fingerprint).root;
  const int seen_rank = (rank_ - root + rank_count()) % rank_count();
  std::vector<int> peers;
  for (const auto& [entry, plan] : plans_) {
    if (plan.counter != record.plan) continue;
    const auto code = plan.codes.find(seen_rank);
    if (code == plan.codes.end()) continue;
    for (const LaneCode& lane : code->second->lanes)
      for (const int seen_peer : {lane.send_peer, lane.recv_peer})
        if (seen_peer >= 0) peers.push_back((seen_peer + root) % rank_count());
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

CommunicatorDump CommunicatorCore::dump_held() const {
  CommunicatorDump dump{.id = agreement_.communicator,
                        .title = group_->title,
                        .rank = rank_,
                        .ranks = agreement_.ranks,
                        .left = group_->left,
                        .posted_count = group_->queue.posted_count(),
                        .completed_count = group_->queue.completed_count(),
                        .failure = group_->queue.failure(),
                        .held_up_by = endpoint_.engine().explain_wait(agreement_.communicator),
                        .programs = counters_,
                        .operations = group_->recorder.operations(),
                        .waits = group_->queue.waits(),
                        .peers = {},
                        .messages = group_->recorder.messages()};
  for (const OperationWait& wait : dump.waits)
    if (group_->recorder.is_recorded(wait.sequence))
      dump.peers[wait.sequence] = list_peers(group_->recorder.operation(wait.sequence));
  return dump;
}

}  // namespace mccl
