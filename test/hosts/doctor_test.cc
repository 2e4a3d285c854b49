// `mccl doctor --hosts` among network namespaces: what it says of a firewall, a route and an MTU.
// One doctor per host, each on its host's thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "doctor/doctor_session.h"
#include "hosts/host_star.h"

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

constexpr size_t kHosts = 3;
constexpr uint16_t kPort = 29700;

std::string place(size_t host) {
  return HostStar::address(host) + ":" + std::to_string(kPort);
}

class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!star_.refusal().empty()) GTEST_SKIP() << star_.refusal();
  }

  // Runs the doctors of the hosts that `takes_part` has; the result of each.
  void run(std::vector<bool> takes_part = {true, true, true}) {
    std::vector<std::thread> threads;
    for (size_t self = 0; self < kHosts; ++self)
      if (takes_part[self])
        threads.emplace_back([this, self] {
          star_.host(self).run([&] { results_[self] = run_session(options(self), clock_); });
        });
    for (std::thread& thread : threads) thread.join();
  }

  SessionOptions options(size_t self) const {
    SessionOptions made;
    made.host_list = lists_[self];
    for (size_t index = 0; index < kHosts; ++index)
      made.hosts.push_back(
          {std::string(1, static_cast<char>('a' + index)), HostStar::address(index)});
    made.self = self;
    made.listen_place.address = HostStar::address(self);
    made.port = kPort;
    made.timeout_ns = timeout_ns_;
    made.rate_ratio_max = 1e9;  // rates are for people: this machine may be busy
    made.limits = {
        .answer_ns = answer_ns_, .stream_ns = kNsPerSecond / 20, .stream_bytes = 4 << 20};
    return made;
  }

  const SessionResult& result(size_t host) { return results_[host]->value(); }
  const NetworkReport& report() { return *result(0).report; }
  std::vector<std::string> findings() {
    std::vector<std::string> texts;
    for (const NetworkFinding& finding : result(0).findings) texts.push_back(finding.text);
    return texts;
  }
  Outcome outcome(size_t from, size_t to) { return report().pair(from, to).outcome; }

  bool has_nft() { return std::system("command -v nft > /dev/null") == 0; }
  void nft(size_t host, const std::string& rule) {
    star_.host(host).run([&] {
      const std::string command =
          "nft add table inet guard && nft 'add chain inet guard input "
          "{ type filter hook input priority 0 ; }' && nft add rule inet guard input " +
          rule;
      ASSERT_EQ(std::system(command.c_str()), 0);
    });
  }

  // What comes from `from`. Rules of routes do what a firewall's do, and every kernel has them.
  void reject_on(size_t host, size_t from, const std::string& manner) {
    // Only a router answers what it does not take.
    star_.host(host).run(
        [] { ASSERT_EQ(std::system("echo 1 > /proc/sys/net/ipv4/ip_forward"), 0); });
    star_.host(host).ip("rule add iif eth0 from " + HostStar::address(from) +
                        " ipproto tcp dport 29700 " + manner + " priority 0");
    star_.host(host).ip("rule add lookup local priority 1");
    star_.host(host).ip("rule del lookup local priority 0");
  }

  SystemClock clock_;
  HostStar star_{kHosts};
  TimeNs timeout_ns_ = 20 * kNsPerSecond;
  TimeNs answer_ns_ = 10 * kNsPerSecond;  // only a test that fails waits as long
  std::vector<std::string> lists_ = {"a,b,c", "a,b,c", "a,b,c"};
  std::vector<std::optional<Result<SessionResult>>> results_ =
      std::vector<std::optional<Result<SessionResult>>>(kHosts);
};

TEST_F(DoctorTest, ThreeHostsThatReachEachOtherAreWell) {
  run();
  EXPECT_THAT(findings(), IsEmpty());
  for (size_t host = 0; host < kHosts; ++host) EXPECT_EQ(result(host).code, ExitCode::Ok);
  EXPECT_FALSE(result(1).report.has_value());
  for (size_t from = 0; from < kHosts; ++from)
    for (size_t to = 0; to < kHosts; ++to) {
      if (from == to) continue;
      const PairResult& pair = report().pair(from, to);
      EXPECT_EQ(pair.outcome, Outcome::Ok) << pair.words;
      EXPECT_EQ(pair.interface, "eth0");
      EXPECT_EQ(host_of(pair.from_address), HostStar::address(from));
      EXPECT_EQ(pair.to_address, place(to));
      EXPECT_EQ(pair.packet_bytes_max, 1500);
      EXPECT_EQ(pair.segment_bytes_max, 1448);
      EXPECT_GT(pair.round_trip_ns, 0);
      EXPECT_GT(pair.bytes_per_second, 0);
    }
}

TEST_F(DoctorTest, AFirewallThatRejectsIsARefusal) {
  if (!has_nft()) GTEST_SKIP() << "nftables is missing";
  nft(1, "ip saddr " + HostStar::address(2) + " tcp dport 29700 reject with tcp reset");
  run();
  EXPECT_THAT(findings(),
              ElementsAre("c (10.213.94.3) is refused by b (10.213.94.2) at 10.213.94.2:29700, "
                          "where its doctor listens: a firewall there or on the way rejects it; "
                          "allow tcp port 29700 from 10.213.94.3; one way only: b (10.213.94.2) "
                          "reaches c (10.213.94.3)"));
  for (size_t host = 0; host < kHosts; ++host) EXPECT_EQ(result(host).code, ExitCode::No);
}

TEST_F(DoctorTest, AFirewallThatDropsIsNoAnswer) {
  answer_ns_ = kNsPerSecond;
  reject_on(1, 2, "blackhole");
  run();
  EXPECT_THAT(findings(),
              ElementsAre("c (10.213.94.3) has no answer from b (10.213.94.2) at "
                          "10.213.94.2:29700 in 1 s: a firewall there or on the way drops it; "
                          "allow tcp port 29700 from 10.213.94.3; one way only: b (10.213.94.2) "
                          "reaches c (10.213.94.3)"));
}

TEST_F(DoctorTest, ARuleOfTheHostItselfIsPermissionDenied) {
  star_.host(2).ip("rule add to " + HostStar::address(1) + " ipproto tcp dport 29700 prohibit");
  run();
  EXPECT_EQ(outcome(2, 1), Outcome::Denied);
  EXPECT_THAT(findings(),
              ElementsAre("c (10.213.94.3) to b (10.213.94.2): cannot reach "
                          "tcp://10.213.94.2:29700 (Permission denied): a firewall or a route of "
                          "this host forbids it; one way only: b (10.213.94.2) reaches c "
                          "(10.213.94.3)"));
}

TEST_F(DoctorTest, AFirewallThatSaysSoIsUnreachable) {
  reject_on(1, 0, "prohibit");
  run();
  EXPECT_EQ(outcome(0, 1), Outcome::Unreachable);
  ASSERT_EQ(findings().size(), 1u);
  EXPECT_THAT(findings()[0], HasSubstr("(No route to host)"));
  EXPECT_THAT(findings()[0], HasSubstr("one way only: b (10.213.94.2) reaches a (10.213.94.1)"));
}

TEST_F(DoctorTest, ASmallerMtuOnOneSideIsNamed) {
  star_.host(2).ip("link set eth0 mtu 1400");
  run();
  EXPECT_THAT(findings(),
              ElementsAre("a (10.213.94.1) sends packets of up to 1500 bytes to c (10.213.94.3), "
                          "which sends up to 1400: give eth0 of a (10.213.94.1) and eth0 of c "
                          "(10.213.94.3) one MTU; c (10.213.94.3) differs from 1 more"));
}

TEST_F(DoctorTest, ASwitchThatCarriesLessThanItsHostsSendIsAStall) {
  answer_ns_ = kNsPerSecond / 2;
  // A packet that is yet to be cut into segments would pass.
  for (size_t host = 0; host < kHosts; ++host) star_.host(host).ip("link set eth0 gso_max_segs 1");
  star_.network().ip("link set port2 mtu 1300");
  run();
  EXPECT_EQ(outcome(0, 1), Outcome::Ok);
  EXPECT_EQ(outcome(1, 0), Outcome::Ok);
  EXPECT_EQ(outcome(0, 2), Outcome::Stalled);
  EXPECT_EQ(outcome(2, 1), Outcome::Stalled);
  ASSERT_EQ(findings().size(), 4u);
  EXPECT_THAT(findings()[0],
              HasSubstr("a (10.213.94.1) reaches c (10.213.94.3) with short messages only"));
  EXPECT_THAT(findings()[0], HasSubstr("less than the 1500 bytes of a packet"));
}

TEST_F(DoctorTest, AHostThatMayOnlyBeCalledIsLedAllTheSame) {
  star_.host(2).ip("rule add to " + HostStar::address(0) + " ipproto tcp dport 29700 prohibit");
  run();
  EXPECT_EQ(outcome(2, 0), Outcome::Denied);
  EXPECT_EQ(outcome(0, 2), Outcome::Ok);
  EXPECT_EQ(outcome(2, 1), Outcome::Ok);
  EXPECT_EQ(findings().size(), 1u);
}

TEST_F(DoctorTest, AHostThatIsNotStartedIsNamedAndTheOthersMeasure) {
  timeout_ns_ = 2 * kNsPerSecond;
  run({true, true, false});
  EXPECT_EQ(outcome(0, 1), Outcome::Ok);
  EXPECT_EQ(outcome(1, 0), Outcome::Ok);
  EXPECT_THAT(findings(), ElementsAre(MatchesRegex(
                              "c .10.213.94.3. never came, in [.0-9]+ s: nobody listens at "
                              "10.213.94.3:29700; start `mccl doctor --hosts a,b,c` there")));
  EXPECT_EQ(result(0).code, ExitCode::Timeout);
  EXPECT_EQ(result(1).code, ExitCode::Timeout);
}

TEST_F(DoctorTest, AHostThatCannotMeetTheFirstSaysWhatItSaw) {
  timeout_ns_ = 3 * kNsPerSecond / 10;
  run({false, false, true});
  EXPECT_EQ(
      results_[2]->status().to_string(),
      "network: c (10.213.94.3) and a (10.213.94.1), the first of --hosts, did not meet in "
      "0.3 s. From here: nobody listens at tcp://10.213.94.1:29700: the process is gone or the "
      "port is another one's. From there no connection came either: a (10.213.94.1) tells "
      "what it saw");
}

TEST_F(DoctorTest, NobodyButTheFirstIsANetworkFailure) {
  timeout_ns_ = 3 * kNsPerSecond / 10;
  run({true, false, false});
  EXPECT_EQ(findings().size(), 2u);
  EXPECT_EQ(result(0).code, ExitCode::Network);
}

TEST_F(DoctorTest, OtherHostListsAreSaidOnBothSides) {
  timeout_ns_ = 2 * kNsPerSecond;
  lists_[1] = "a,b";
  run();
  EXPECT_EQ(results_[1]->status().to_string(),
            "invalid argument: a (10.213.94.1) was started with --hosts a,b,c, this host with a,b: "
            "they must be alike on all hosts");
  EXPECT_THAT(findings(), ElementsAre(MatchesRegex(
                              "b .10.213.94.2. never came, in [.0-9]+ s: it was started with "
                              "--hosts a,b, a .10.213.94.1. with a,b,c: they must be alike")));
}

}  // namespace
}  // namespace mccl
