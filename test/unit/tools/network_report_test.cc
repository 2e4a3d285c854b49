#include "doctor/network_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "doctor/doctor_text.h"

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Three hosts a, b, c at 10.0.0.1 to 3, all well.
NetworkReport sound_report() {
  NetworkReport report{.host_list = "a,b,c",
                       .port = 29700,
                       .answer_ns = 3 * kNsPerSecond,
                       .waited_ns = 30 * kNsPerSecond};
  for (const char* name : {"a", "b", "c"})
    report.hosts.push_back(
        {.host = {name, "10.0.0." + std::to_string(report.hosts.size() + 1)}, .has_come = true});
  for (const HostReport& from : report.hosts)
    for (const HostReport& to : report.hosts) {
      PairResult& made = report.pairs.emplace_back();
      if (from.host == to.host) continue;
      made = {.outcome = Outcome::Ok,
              .from_address = from.host.address + ":40000",
              .to_address = to.host.address + ":29700",
              .interface = "eth0",
              .round_trip_ns = 61'000,
              .bytes_per_second = 1'178'000'000,
              .packet_bytes_max = 1500,
              .segment_bytes_max = 1448};
    }
  return report;
}

PairResult failed(Outcome outcome, const std::string& words = "words") {
  return {.outcome = outcome, .words = words};
}

std::vector<std::string> texts(const NetworkReport& report) {
  std::vector<std::string> all;
  for (const NetworkFinding& finding : find_faults(report)) all.push_back(finding.text);
  return all;
}

TEST(NetworkVerdict, IsEmptyWhenAllIsWell) {
  const NetworkReport report = sound_report();
  EXPECT_THAT(texts(report), IsEmpty());
  EXPECT_EQ(exit_code_of(report, {}), ExitCode::Ok);
}

TEST(NetworkVerdict, TellsRefusedFromDroppedAndSaysWhenItIsOneWay) {
  NetworkReport report = sound_report();
  report.pair(0, 1) = failed(Outcome::Refused);
  report.pair(1, 2) = failed(Outcome::Dropped);
  report.pair(1, 2).from_address = "10.0.0.9:41000";
  report.pair(2, 1) = failed(Outcome::Dropped);
  EXPECT_THAT(
      texts(report),
      ElementsAre("a (10.0.0.1) is refused by b (10.0.0.2) at 10.0.0.2:29700, where its doctor "
                  "listens: a firewall there or on the way rejects it; allow tcp port 29700 from "
                  "10.0.0.1; one way only: b (10.0.0.2) reaches a (10.0.0.1)",
                  "b (10.0.0.2) has no answer from c (10.0.0.3) at 10.0.0.3:29700 in 3 s: a "
                  "firewall there or on the way drops it; allow tcp port 29700 from 10.0.0.9",
                  "c (10.0.0.3) has no answer from b (10.0.0.2) at 10.0.0.2:29700 in 3 s: a "
                  "firewall there or on the way drops it; allow tcp port 29700 from 10.0.0.3"));
  EXPECT_EQ(exit_code_of(report, find_faults(report)), ExitCode::No);
}

TEST(NetworkVerdict, RepeatsWhatTheKernelSaidOfOtherFailures) {
  NetworkReport report = sound_report();
  report.pair(0, 1) = failed(Outcome::Unreachable, "cannot reach b (No route to host)");
  report.pair(0, 2) = failed(Outcome::Denied, "cannot reach c (Permission denied)");
  report.pair(1, 2) = failed(Outcome::Stalled);
  report.pair(1, 2).packet_bytes_max = 9000;
  report.pair(1, 2).interface = "eth0";
  EXPECT_THAT(
      texts(report),
      ElementsAre("a (10.0.0.1): cannot reach b (No route to host); b (10.0.0.2) is up, so look "
                  "for a firewall or a route between the two; one way only: b (10.0.0.2) reaches a "
                  "(10.0.0.1)",
                  "a (10.0.0.1) to c (10.0.0.3): cannot reach c (Permission denied); one way only: "
                  "c (10.0.0.3) reaches a (10.0.0.1)",
                  "b (10.0.0.2) reaches c (10.0.0.3) with short messages only, a stream of bytes "
                  "stops: what is between them carries less than the 9000 bytes of a packet from b "
                  "(10.0.0.2) (eth0); give all interfaces and switches on the way one MTU; one way "
                  "only: c (10.0.0.3) reaches b (10.0.0.2)"));
}

TEST(NetworkVerdict, ComparesTheTwoWaysOfAPair) {
  NetworkReport report = sound_report();
  report.pair(0, 1).packet_bytes_max = 9000;
  report.pair(2, 0).bytes_per_second = 94'000'000;
  // Unknown, and a factor of two: neither is odd.
  report.pair(1, 2).packet_bytes_max = 0;
  report.pair(1, 2).bytes_per_second = 589'000'000;
  EXPECT_THAT(
      texts(report),
      ElementsAre("a (10.0.0.1) sends packets of up to 9000 bytes to b (10.0.0.2), which sends up "
                  "to 1500: give eth0 of a (10.0.0.1) and eth0 of b (10.0.0.2) one MTU",
                  "c (10.0.0.3) sends 0.094 GB/s to a (10.0.0.1), which sends 1.178 GB/s back: see "
                  "whether the cable, its speed and duplex, and the load of both hosts are alike"));
}

TEST(NetworkVerdict, NamesAnMtuThatDiffersFromAllOthersOnce) {
  NetworkReport report = sound_report();
  report.pair(1, 0).packet_bytes_max = 9000;
  report.pair(1, 2).packet_bytes_max = 9000;
  EXPECT_THAT(
      texts(report),
      ElementsAre("a (10.0.0.1) sends packets of up to 1500 bytes to b (10.0.0.2), which sends up "
                  "to 9000: give eth0 of a (10.0.0.1) and eth0 of b (10.0.0.2) one MTU; b "
                  "(10.0.0.2) differs from 1 more"));
}

TEST(NetworkVerdict, NamesPoorInterfacesAndOtherSourcesOncePerHost) {
  NetworkReport report = sound_report();
  for (const size_t to : {1u, 2u}) {
    report.pair(0, to).from_address = "10.9.0.1:40000";
    report.pair(0, to).interface = "eth1";
  }
  for (const size_t to : {0u, 2u}) report.pair(1, to).interface = "utun3";
  EXPECT_THAT(
      texts(report),
      ElementsAre("a (10.0.0.1) reaches b (10.0.0.2) from 10.9.0.1 (eth1), not from 10.0.0.1: give "
                  "--hosts an address of the network that they share, or change the route",
                  "b (10.0.0.2) reaches a (10.0.0.1) by utun3, a tunnel interface: name an address "
                  "of the network itself, and see MCCL_SOCKET_IFNAME"));
}

TEST(NetworkVerdict, SaysOnceThatHostsAreOneMachine) {
  NetworkReport report = sound_report();
  for (PairResult& pair : report.pairs) {
    pair.interface = "lo";
    pair.from_address = "127.0.0.1:40000";
  }
  report.pair(0, 1).bytes_per_second = 1;
  EXPECT_THAT(texts(report), ElementsAre("a (10.0.0.1) reaches b (10.0.0.2) by lo: they are one "
                                         "machine, which says nothing about a network"));
}

TEST(NetworkVerdict, NamesHostsThatNeverCameAndWhatWasSeenOfThem) {
  NetworkReport report = sound_report();
  report.hosts[1].has_come = false;
  report.hosts[1].dial = failed(Outcome::Refused);
  report.hosts[2].has_come = false;
  report.hosts[2].dial = failed(Outcome::Dropped);
  for (PairResult& pair : report.pairs) pair = {};
  EXPECT_THAT(texts(report),
              ElementsAre("b (10.0.0.2) never came, in 30 s: nobody listens at 10.0.0.2:29700; "
                          "start `mccl doctor --hosts a,b,c` there",
                          "c (10.0.0.3) never came, in 30 s: 10.0.0.3:29700 does not answer; it is "
                          "down, or a firewall drops tcp port 29700 between it and a (10.0.0.1) "
                          "both ways: its own output says what it saw"));
  EXPECT_EQ(exit_code_of(report, find_faults(report)), ExitCode::Network);
}

TEST(NetworkVerdict, OtherwiseRepeatsWhyAHostNeverCame) {
  NetworkReport report = sound_report();
  report.hosts[1].has_come = false;
  report.hosts[1].dial = failed(Outcome::Unreachable, "cannot reach it (No route to host)");
  report.hosts[2].has_come = false;
  report.hosts[2].other_list = "a,c";
  EXPECT_THAT(texts(report),
              ElementsAre("b (10.0.0.2) never came, in 30 s: cannot reach it (No route to host)",
                          "c (10.0.0.3) never came, in 30 s: it was started with --hosts a,c, a "
                          "(10.0.0.1) with a,b,c: they must be alike"));
  EXPECT_EQ(exit_code_of(report, find_faults(report)), ExitCode::Timeout);
}

TEST(NetworkVerdict, PassesOnWhatAHostSaysOfItself) {
  NetworkReport report = sound_report();
  report.hosts[1].note = "b is 127.0.1.1 on b itself";
  report.hosts[2].is_lost = true;
  report.pair(1, 0).from_address = "10.0.0.77:1";  // follows from the note
  EXPECT_THAT(texts(report), ElementsAre("b is 127.0.1.1 on b itself",
                                         "c (10.0.0.3) came and went before the end: see what its "
                                         "own output says"));
}

TEST(NetworkVerdict, NobodyReachableIsANetworkFailure) {
  NetworkReport report = sound_report();
  for (PairResult& pair : report.pairs) pair = failed(Outcome::Dropped);
  EXPECT_EQ(exit_code_of(report, find_faults(report)), ExitCode::Network);
}

TEST(NetworkTurns, AreEveryWayOnce) {
  for (const size_t count : {2u, 3u, 4u, 7u, 8u, 64u}) {
    const auto turns = list_turns(count);
    EXPECT_EQ(turns.size(), count * (count - 1));
    EXPECT_EQ(std::set(turns.begin(), turns.end()).size(), turns.size());
    for (const auto& [from, to] : turns) EXPECT_TRUE(from != to && from < count && to < count);
  }
}

TEST(NetworkText, IsAMatrixTheWaysAndTheVerdict) {
  NetworkReport report = sound_report();
  report.pair(0, 2) = failed(Outcome::Dropped);
  report.pair(0, 2).to_address = "10.0.0.3:29700";
  report.pair(1, 2) = {};
  std::ostringstream out, err;
  Terminal terminal{.out = out, .err = err};
  print_report(report, {{.text = "what to do"}}, terminal);
  EXPECT_EQ(
      out.str(),
      R"(3 hosts, tcp port 29700, one pair at a time, one connection, 8-byte round trips; measured

GB/s from, to            a            b            c
a                        .        1.178      dropped
b                    1.178            .            -
c                    1.178        1.178            .

from  to              result   source          interface     us   GB/s   MTU  segment
a     10.0.0.2:29700  ok       10.0.0.1:40000  eth0 (lan)  61.0  1.178  1500     1448
a     10.0.0.3:29700  dropped  -               -              -      -     -        -
b     10.0.0.1:29700  ok       10.0.0.2:40000  eth0 (lan)  61.0  1.178  1500     1448
c     10.0.0.1:29700  ok       10.0.0.3:40000  eth0 (lan)  61.0  1.178  1500     1448
c     10.0.0.2:29700  ok       10.0.0.3:40000  eth0 (lan)  61.0  1.178  1500     1448

what to do
)");
}

}  // namespace
}  // namespace mccl
