// A rank waits for another one when it is in a call that the other one has not made: then the other
// one is elsewhere, perhaps in a call of another communicator that waits in turn. A circle of such
// waits is a deadlock of the program. A call that all have made cannot be the reason: it ends by
// itself (law L2).
#include "dump/wait_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

namespace mccl {
namespace {

struct Member {
  const DumpedProcess* process = nullptr;
  const DumpedCommunicator* communicator = nullptr;
};

// A communicator as several dumps show it.
struct Group {
  const DumpedCommunicator* any = nullptr;
  std::vector<Member> members;  // by rank; null without a dump
};

struct Wait {
  std::string to;  // process
  std::string text;
};
using Waits = std::map<std::string, std::vector<Wait>>;  // by process

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t index = 0; index < ranks.size(); ++index)
    text += (index == 0 ? "" : ", ") + std::to_string(ranks[index]);
  return text;
}

std::vector<Group> group_dumps(const std::vector<DumpedProcess>& processes) {
  std::vector<Group> groups;
  std::map<std::string, size_t> index_of_id;
  for (const DumpedProcess& process : processes)
    for (const DumpedCommunicator& communicator : process.communicators) {
      const auto [found, is_new] = index_of_id.try_emplace(communicator.id, groups.size());
      if (is_new) groups.push_back({&communicator, {}});
      Group& group = groups[found->second];
      group.members.resize(std::max(group.members.size(), communicator.members.size()));
      group.members[static_cast<size_t>(communicator.rank)] = {&process, &communicator};
    }
  return groups;
}

const DumpedCall* find_shown_call(const DumpedCommunicator& communicator) {
  for (const DumpedCall& call : communicator.calls)
    if (call.is_open()) return &call;
  return communicator.calls.empty() ? nullptr : &communicator.calls.back();
}

RankRow make_row(const Group& group, int rank) {
  RankRow row;
  row.rank = rank;
  const size_t index = static_cast<size_t>(rank);
  if (index < group.any->members.size()) {
    row.host = group.any->members[index].host;
    row.pid = group.any->members[index].pid;
  }
  const DumpedCommunicator* communicator = group.members[index].communicator;
  row.has_dump = communicator != nullptr;
  if (!row.has_dump) return row;
  row.posted_count = communicator->posted_count;
  row.completed_count = communicator->completed_count;
  row.failure = communicator->failure;
  row.held_up_by = communicator->held_up_by;
  const DumpedCall* call = find_shown_call(*communicator);
  if (call == nullptr) return row;
  row.call = fmt::format("{} {}", call->sequence, call->call);
  row.state = call->failed_in.empty() ? call->state : call->state + ", was " + call->failed_in;
  row.waits_for = call->waits_for.empty() ? call->waits : list_ranks(call->waits_for);
  return row;
}

// By rank: the first call in which somebody is and which the rank has not made, or not shown.
std::vector<MissingCall> find_missing_calls(const Group& group) {
  std::map<int, MissingCall> missing;
  for (size_t waiter = 0; waiter < group.members.size(); ++waiter) {
    const DumpedCommunicator* own = group.members[waiter].communicator;
    if (own == nullptr) continue;
    for (const DumpedCall& call : own->calls) {
      if (!call.is_open()) continue;
      for (size_t rank = 0; rank < group.members.size(); ++rank) {
        const DumpedCommunicator* other = group.members[rank].communicator;
        const int number = static_cast<int>(rank);
        const bool is_missing = other != nullptr
                                    ? other->posted_count <= call.sequence
                                    : std::find(call.waits_for.begin(), call.waits_for.end(),
                                                number) != call.waits_for.end();
        if (!is_missing) continue;
        MissingCall found{number, other != nullptr, call.sequence, call.call, {}};
        MissingCall& first = missing.try_emplace(number, found).first->second;
        if (found.sequence < first.sequence) first = found;
        if (found.sequence == first.sequence) first.waiters.push_back(static_cast<int>(waiter));
      }
    }
  }
  std::vector<MissingCall> list;
  for (auto& [rank, one] : missing) list.push_back(std::move(one));
  return list;
}

std::vector<MissingMessage> find_missing_messages(const Group& group) {
  std::vector<MissingMessage> list;
  for (size_t rank = 0; rank < group.members.size(); ++rank) {
    const DumpedCommunicator* own = group.members[rank].communicator;
    if (own == nullptr) continue;
    for (const DumpedMessage& message : own->messages)
      if (message.waits_for_peer())
        list.push_back({static_cast<int>(rank), message.peer, message.is_send, message.tag});
  }
  return list;
}

std::string name_of(const DumpedMember& member) {
  return fmt::format("host {}, pid {}", member.host, member.pid);
}

void add_waits(const Group& group, const CommunicatorReport& report, Waits& waits) {
  const std::vector<DumpedMember>& members = group.any->members;
  const auto add = [&](int from, int to, const std::string& what, const std::string& lack) {
    if (to < 0 || std::max(from, to) >= static_cast<int>(members.size())) return;
    const DumpedMember& waiter = members[static_cast<size_t>(from)];
    const DumpedMember& peer = members[static_cast<size_t>(to)];
    waits[waiter.process].push_back(
        {peer.process, fmt::format("{} waits in {}, {}, for rank {} ({}), which {}",
                                   name_of(waiter), report.name, what, to, name_of(peer), lack)});
  };
  for (const MissingCall& missing : report.missing)
    for (const int waiter : missing.waiters)
      if (missing.has_dump)
        add(waiter, missing.rank, fmt::format("operation {}, {}", missing.sequence, missing.call),
            "has not made it");
  for (const MissingMessage& missing : report.messages)
    add(missing.rank, missing.peer,
        fmt::format("{} with tag {}", missing.is_send ? "a send" : "a receive", missing.tag),
        missing.is_send ? "has posted no receive for it" : "has sent none");
}

// The shortest way from `start` back to itself; breadth first.
std::vector<std::string> find_circle_from(const std::string& start, const Waits& waits) {
  std::map<std::string, std::pair<std::string, std::string>> reached;  // process: from, sentence
  std::deque<std::string> next = {start};
  while (!next.empty() && !reached.contains(start)) {
    const std::string process = next.front();
    next.pop_front();
    const auto found = waits.find(process);
    if (found == waits.end()) continue;
    for (const Wait& wait : found->second)
      if (reached.try_emplace(wait.to, process, wait.text).second) next.push_back(wait.to);
  }
  std::vector<std::string> sentences;
  if (!reached.contains(start)) return sentences;
  std::string process = start;
  do {
    const auto& [from, sentence] = reached.at(process);
    sentences.insert(sentences.begin(), sentence);
    process = from;
  } while (process != start);
  return sentences;
}

std::vector<std::string> find_circle(const Waits& waits) {
  std::vector<std::string> shortest;
  for (const auto& [process, own] : waits) {
    std::vector<std::string> circle = find_circle_from(process, waits);
    if (!circle.empty() && (shortest.empty() || circle.size() < shortest.size()))
      shortest = std::move(circle);
  }
  return shortest;
}

void keep_latest(std::vector<DumpedProcess>& processes) {
  std::map<std::string, std::string> latest;
  for (const DumpedProcess& process : processes)
    latest[process.process] = std::max(latest[process.process], process.time);
  std::set<std::string> kept;
  std::erase_if(processes, [&](const DumpedProcess& process) {
    return process.time != latest[process.process] || !kept.insert(process.process).second;
  });
}

}  // namespace

std::string to_text(const MissingCall& missing) {
  if (!missing.has_dump)
    return fmt::format("{} {} for rank {}, of which there is no dump, in operation {}, {}",
                       list_ranks(missing.waiters), missing.waiters.size() == 1 ? "waits" : "wait",
                       missing.rank, missing.sequence, missing.call);
  return fmt::format("rank {} has not made operation {}, {}, which {} {} for", missing.rank,
                     missing.sequence, missing.call, list_ranks(missing.waiters),
                     missing.waiters.size() == 1 ? "waits" : "wait");
}

std::string to_text(const MissingMessage& missing) {
  const std::string peer =
      missing.peer < 0 ? std::string("any rank") : fmt::format("rank {}", missing.peer);
  if (missing.is_send)
    return fmt::format(
        "rank {} waits to send with tag {} to {}, which has posted no receive for it", missing.rank,
        missing.tag, peer);
  return fmt::format("rank {} waits for a message with tag {} from {}", missing.rank, missing.tag,
                     peer);
}

bool WaitReport::is_anybody_behind() const {
  return std::any_of(communicators.begin(), communicators.end(), [](const CommunicatorReport& one) {
    return !one.missing.empty() || !one.messages.empty();
  });
}

WaitReport make_wait_report(std::vector<DumpedProcess> processes) {
  keep_latest(processes);
  WaitReport report;
  Waits waits;
  for (const Group& group : group_dumps(processes)) {
    CommunicatorReport communicator{.id = group.any->id,
                                    .name = group.any->name,
                                    .rows = {},
                                    .missing = find_missing_calls(group),
                                    .messages = find_missing_messages(group)};
    for (size_t rank = 0; rank < group.members.size(); ++rank)
      communicator.rows.push_back(make_row(group, static_cast<int>(rank)));
    add_waits(group, communicator, waits);
    report.communicators.push_back(std::move(communicator));
  }
  report.circle = find_circle(waits);
  return report;
}

}  // namespace mccl
