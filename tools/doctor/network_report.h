// What the first host knows when all pairs have measured, and what follows from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "doctor/host_list.h"
#include "doctor/pair_result.h"
#include "verb/verb.h"

namespace mccl {

// The two directions of one cable differ less than this.
constexpr double kRateRatioMax = 2;

struct HostReport {
  DoctorHost host;
  bool has_come = false;
  std::string other_list = {};  // --hosts of a host that is not welcome because it differs
  bool is_lost = false;         // came, and went before the end
  PairResult dial = {};         // of a host that never came: what the first host saw of it last
  std::string note = {};        // what the host says is wrong with itself
};

struct NetworkReport {
  std::string host_list;  // --hosts
  uint16_t port = 0;
  double rate_ratio_max = kRateRatioMax;
  TimeNs answer_ns = 0;  // without an answer for as long a connection counts as dropped
  TimeNs waited_ns = 0;  // for hosts to come
  std::vector<HostReport> hosts = {};
  std::vector<PairResult> pairs = {};  // [from * hosts.size() + to]

  const PairResult& pair(size_t from, size_t to) const { return pairs[from * hosts.size() + to]; }
  PairResult& pair(size_t from, size_t to) { return pairs[from * hosts.size() + to]; }
};

enum class FindingKind : uint8_t {
  HostMissing,
  HostLost,
  HostName,       // a name that means loopback on its own host
  PairFails,      // in this direction
  PacketSizes,    // MTUs differ
  RatesDiffer,    // by direction
  OtherSource,    // the kernel goes by another address than --hosts names
  PoorInterface,  // loopback, tunnel, container
};
std::string_view finding_kind_name(FindingKind kind);

struct NetworkFinding {
  FindingKind kind = FindingKind::PairFails;
  size_t from = 0;  // or the host that it is about
  size_t to = 0;
  std::string text = {};  // what happened and what to do
};

// All that is wrong or odd, hosts first.
std::vector<NetworkFinding> find_faults(const NetworkReport& report);

// 3 when no other host is reachable, 4 when one never came, 1 for any other finding.
ExitCode exit_code_of(const NetworkReport& report, const std::vector<NetworkFinding>& findings);

// Every pair of `host_count` hosts in both directions, as few as possible of a host in a row.
std::vector<std::pair<size_t, size_t>> list_turns(size_t host_count);

// "a (10.0.0.1)"; the address alone when it is the name.
std::string host_text(const DoctorHost& host);

}  // namespace mccl
