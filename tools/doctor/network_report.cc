// The verdict: pure, from figures to sentences. A finding names both hosts, what was seen, and what
// to do; a way that works in one direction only says so, because that is what tells a firewall of
// one host from a network that is down.
#include "doctor/network_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace mccl {
namespace {

std::string seconds_text(TimeNs time_ns) {
  return fmt::format("{:.3g} s", static_cast<double>(time_ns) / static_cast<double>(kNsPerSecond));
}

class Examiner {
 public:
  explicit Examiner(const NetworkReport& report) : report_(report) {}

  std::vector<NetworkFinding> run() {
    const size_t count = report_.hosts.size();
    for (size_t index = 0; index < count; ++index) examine_host(index);
    for (size_t from = 0; from < count; ++from)
      for (size_t to = 0; to < count; ++to) {
        if (from == to) continue;
        examine_way(from, to);
        if (from < to && report_.pair(from, to).is_ok() && report_.pair(to, from).is_ok())
          compare_ways(from, to);
      }
    return std::move(findings_);
  }

 private:
  std::string name(size_t host) const { return host_text(report_.hosts[host].host); }
  std::string place(size_t host) const {
    const std::string& address = report_.hosts[host].host.address;
    const bool is_ipv6 = address.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + address + "]" : address) + fmt::format(":{}", report_.port);
  }
  // Where a packet of `from` to `to` comes from, as far as is known.
  std::string source(size_t from, const PairResult& result) const {
    return result.from_address.empty() ? report_.hosts[from].host.address
                                       : host_of(result.from_address);
  }
  // What holds of a host's ways to all others is said of the first one.
  bool is_first_of(const std::string& remark) { return remarks_.insert(remark).second; }
  void add(FindingKind kind, size_t from, size_t to, std::string text) {
    findings_.push_back({.kind = kind, .from = from, .to = to, .text = std::move(text)});
  }

  void examine_host(size_t index);
  std::string missing_text(size_t index) const;
  void examine_way(size_t from, size_t to);
  std::string failure_text(size_t from, size_t to) const;
  void examine_path(size_t from, size_t to);
  bool have_other_packets(size_t one, size_t other) const;
  size_t count_other_packets(size_t host) const;
  void compare_ways(size_t from, size_t to);

  const NetworkReport& report_;
  std::vector<NetworkFinding> findings_;
  std::set<std::string> remarks_;
};

bool Examiner::have_other_packets(size_t one, size_t other) const {
  const PairResult& there = report_.pair(one, other);
  const PairResult& back = report_.pair(other, one);
  return there.is_ok() && back.is_ok() && there.packet_bytes_max > 0 && back.packet_bytes_max > 0 &&
         there.packet_bytes_max != back.packet_bytes_max;
}

size_t Examiner::count_other_packets(size_t host) const {
  size_t count = 0;
  for (size_t other = 0; other < report_.hosts.size(); ++other)
    if (other != host && have_other_packets(host, other)) ++count;
  return count;
}

void Examiner::examine_host(size_t index) {
  const HostReport& host = report_.hosts[index];
  if (!host.has_come) {
    add(FindingKind::HostMissing, index, index,
        fmt::format("{} never came, in {}: {}", name(index), seconds_text(report_.waited_ns),
                    missing_text(index)));
  } else if (host.is_lost) {
    add(FindingKind::HostLost, index, index,
        fmt::format("{} came and went before the end: see what its own output says", name(index)));
  }
  if (!host.note.empty()) add(FindingKind::HostName, index, index, host.note);
}

std::string Examiner::missing_text(size_t index) const {
  const PairResult& dial = report_.hosts[index].dial;
  if (!report_.hosts[index].other_list.empty())
    return fmt::format("it was started with --hosts {}, {} with {}: they must be alike",
                       report_.hosts[index].other_list, name(0), report_.host_list);
  switch (dial.outcome) {
    case Outcome::Refused:
      return fmt::format("nobody listens at {}; start `mccl doctor --hosts {}` there", place(index),
                         report_.host_list);
    case Outcome::Dropped:
      return fmt::format(
          "{} does not answer; it is down, or a firewall drops tcp port {} between "
          "it and {} both ways: its own output says what it saw",
          place(index), report_.port, name(0));
    case Outcome::NotMeasured:
    case Outcome::Ok:
      return fmt::format("start `mccl doctor --hosts {}` there", report_.host_list);
    case Outcome::Unreachable:
    case Outcome::Denied:
    case Outcome::Stalled:
    case Outcome::Broken:
    case Outcome::Failed:
      break;
  }
  return dial.words;
}

void Examiner::examine_way(size_t from, size_t to) {
  const PairResult& result = report_.pair(from, to);
  if (result.outcome == Outcome::NotMeasured) return;
  if (result.is_ok()) return examine_path(from, to);
  std::string text = failure_text(from, to);
  if (report_.pair(to, from).is_ok())
    text += fmt::format("; one way only: {} reaches {}", name(to), name(from));
  add(FindingKind::PairFails, from, to, std::move(text));
}

std::string Examiner::failure_text(size_t from, size_t to) const {
  const PairResult& result = report_.pair(from, to);
  const auto open_port = [&] {
    return fmt::format("allow tcp port {} from {}", report_.port, source(from, result));
  };
  switch (result.outcome) {
    case Outcome::Refused:
      return fmt::format(
          "{} is refused by {} at {}, where its doctor listens: a firewall there or "
          "on the way rejects it; {}",
          name(from), name(to), place(to), open_port());
    case Outcome::Dropped:
      return fmt::format(
          "{} has no answer from {} at {} in {}: a firewall there or on the way "
          "drops it; {}",
          name(from), name(to), place(to), seconds_text(report_.answer_ns), open_port());
    case Outcome::Unreachable:
      return fmt::format("{}: {}; {} is up, so look for a firewall or a route between the two",
                         name(from), result.words, name(to));
    case Outcome::Stalled:
      return fmt::format(
          "{} reaches {} with short messages only, a stream of bytes stops: what is "
          "between them carries less than the {} bytes of a packet from {} ({}); "
          "give all interfaces and switches on the way one MTU",
          name(from), name(to), result.packet_bytes_max, name(from), result.interface);
    case Outcome::Denied:
    case Outcome::Broken:
    case Outcome::Failed:
    case Outcome::NotMeasured:
    case Outcome::Ok:
      break;
  }
  return fmt::format("{} to {}: {}", name(from), name(to), result.words);
}

void Examiner::examine_path(size_t from, size_t to) {
  const PairResult& result = report_.pair(from, to);
  const std::string& address = report_.hosts[from].host.address;
  const InterfaceKind kind = interface_kind(result.interface);
  if (kind == InterfaceKind::Loopback) {
    if (is_first_of("loopback"))
      add(FindingKind::PoorInterface, from, to,
          fmt::format("{} reaches {} by {}: they are one machine, which says nothing about a "
                      "network",
                      name(from), name(to), result.interface));
    return;
  }
  if (source(from, result) != address && report_.hosts[from].note.empty() &&
      is_first_of(fmt::format("{} {}", from, source(from, result))))
    add(FindingKind::OtherSource, from, to,
        fmt::format("{} reaches {} from {} ({}), not from {}: give --hosts an address of the "
                    "network that they share, or change the route",
                    name(from), name(to), source(from, result), result.interface, address));
  if ((kind == InterfaceKind::Tunnel || kind == InterfaceKind::Container) &&
      is_first_of(fmt::format("{} {}", from, result.interface)))
    add(FindingKind::PoorInterface, from, to,
        fmt::format("{} reaches {} by {}, a {} interface: name an address of the network itself, "
                    "and see MCCL_SOCKET_IFNAME",
                    name(from), name(to), result.interface, interface_kind_name(kind)));
}

// `from` < `to`; both ways are well.
void Examiner::compare_ways(size_t from, size_t to) {
  const PairResult& there = report_.pair(from, to);
  const PairResult& back = report_.pair(to, from);
  if (interface_kind(there.interface) == InterfaceKind::Loopback) return;
  if (have_other_packets(from, to)) {
    // One host with an MTU of its own differs from all others: that is one finding.
    const size_t odd = count_other_packets(from) > count_other_packets(to) ? from : to;
    const size_t more = count_other_packets(odd) - 1;
    if (is_first_of(fmt::format("mtu {}", odd)))
      add(FindingKind::PacketSizes, from, to,
          fmt::format("{} sends packets of up to {} bytes to {}, which sends up to {}: give {} of "
                      "{} and {} of {} one MTU{}",
                      name(from), there.packet_bytes_max, name(to), back.packet_bytes_max,
                      there.interface, name(from), back.interface, name(to),
                      more == 0 ? "" : fmt::format("; {} differs from {} more", name(odd), more)));
  }
  const bool is_there_faster = there.bytes_per_second > back.bytes_per_second;
  const auto fast =
      static_cast<double>(is_there_faster ? there.bytes_per_second : back.bytes_per_second);
  const auto slow =
      static_cast<double>(is_there_faster ? back.bytes_per_second : there.bytes_per_second);
  if (fast <= report_.rate_ratio_max * slow) return;
  const size_t slow_from = is_there_faster ? to : from;
  const size_t slow_to = is_there_faster ? from : to;
  add(FindingKind::RatesDiffer, slow_from, slow_to,
      fmt::format(
          "{} sends {:.4g} GB/s to {}, which sends {:.4g} GB/s back: see whether the cable, "
          "its speed and duplex, and the load of both hosts are alike",
          name(slow_from), slow / 1e9, name(slow_to), fast / 1e9));
}

}  // namespace

std::string_view finding_kind_name(FindingKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {
      "host_missing", "host_lost",    "host_name",    "pair_fails",
      "packet_sizes", "rates_differ", "other_source", "poor_interface"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<NetworkFinding> find_faults(const NetworkReport& report) {
  return Examiner(report).run();
}

ExitCode exit_code_of(const NetworkReport& report, const std::vector<NetworkFinding>& findings) {
  const bool is_any_reachable = std::any_of(report.pairs.begin(), report.pairs.end(),
                                            [](const PairResult& one) { return one.is_ok(); });
  if (!is_any_reachable) return ExitCode::Network;
  if (std::any_of(findings.begin(), findings.end(),
                  [](const NetworkFinding& one) { return one.kind == FindingKind::HostMissing; }))
    return ExitCode::Timeout;
  return findings.empty() ? ExitCode::Ok : ExitCode::No;
}

// The circle method: one host stays, the others move on by one place a round.
std::vector<std::pair<size_t, size_t>> list_turns(size_t host_count) {
  const size_t places = host_count + host_count % 2;  // the last place is empty for an odd number
  std::vector<std::pair<size_t, size_t>> turns;
  for (size_t round = 0; round + 1 < places; ++round)
    for (size_t place = 0; place < places / 2; ++place) {
      const auto at = [&](size_t index) {
        return index == 0 ? 0 : 1 + (index - 1 + round) % (places - 1);
      };
      const size_t one = at(place);
      const size_t other = at(places - 1 - place);
      if (one >= host_count || other >= host_count) continue;
      turns.emplace_back(one, other);
      turns.emplace_back(other, one);
    }
  return turns;
}

std::string host_text(const DoctorHost& host) {
  return host.name == host.address ? host.name : fmt::format("{} ({})", host.name, host.address);
}

}  // namespace mccl
