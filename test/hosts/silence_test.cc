// What the kernel does with hosts that vanish, processes that stop and networks that lead nowhere,
// between two network namespaces. What is promised is a time, so times are asserted here: a
// vanished host is found a second after the peer timeout at the latest.
//
//   hosts_test --peer-timeout-s=5 --stopped-s=12    longer than in `make test`
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "conformance/wire_pump.h"
#include "hosts/host_pair.h"
#include "hosts/stopped_reader.h"
#include "transport/tcp_wire.h"

namespace mccl {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr TimeNs kCheckIntervalNs = kNsPerSecond / 4;
constexpr TimeNs kStuckNs = 60 * kNsPerSecond;  // only a test that fails waits as long
constexpr uint64_t kReportBytes = 1 << 20;
constexpr uint64_t kQueuedBytes = 64 << 20;  // more than the kernels at both ends hold

struct Times {
  TimeNs peer_timeout_ns = 2 * kNsPerSecond;
  TimeNs stopped_ns = 4 * kNsPerSecond;
};

// Written by main before any test runs.
Times& times() {
  static Times set;
  return set;
}

double seconds(TimeNs time_ns) {
  return static_cast<double>(time_ns) / static_cast<double>(kNsPerSecond);
}

// A wire of the near host with what is written to it.
struct WatchedWire {
  std::string name;
  std::unique_ptr<Wire> wire;
  uint64_t total_bytes = 0;  // to be written
  uint64_t written_bytes = 0;
  Status failure;  // what read() said
  TimeNs failure_time = 0;

  void step(TimeNs now) {
    if (!failure.is_ok()) return;
    while (written_bytes < total_bytes) {
      const size_t asked = std::min<uint64_t>(total_bytes - written_bytes, kPieceBytesMax);
      const Result<size_t> taken = write_bytes(*wire, pattern_at(written_bytes), asked);
      if (!taken.is_ok() || taken.value() == 0) break;
      written_bytes += taken.value();
    }
    char byte = 0;
    failure = read_bytes(*wire, &byte, 1).status();
    failure_time = now;
  }
};

class HostsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.refusal().empty()) GTEST_SKIP() << hosts_.refusal();
    near_ = make_context(hosts_.near(), HostPair::kNearAddress);
  }

  std::unique_ptr<WireContext> make_context(Host& host, const std::string& address) {
    TcpOptions options;
    options.listen_address = address;
    options.peer_timeout_ns = times().peer_timeout_ns;
    std::unique_ptr<WireContext> made;
    host.run([&] { made = make_tcp_context(options).value(); });
    return made;
  }

  WatchedWire& connect(const std::string& name, const std::string& address) {
    wires_.push_back(std::make_unique<WatchedWire>());
    wires_.back()->name = name;
    hosts_.near().run(
        [&] { wires_.back()->wire = near_->connect(address, wires_.size()).value(); });
    return *wires_.back();
  }

  // Writes and reads all wires and asks them for their peers until `done` holds.
  template <typename Done>
  bool drive_until(const Done& done) {
    const TimeNs stuck = clock_.now() + kStuckNs;
    TimeNs next_check = clock_.now();
    while (clock_.now() < stuck) {
      std::vector<WireEvent> events;
      near_->poll(kCheckIntervalNs / 8, events);
      const TimeNs now = clock_.now();
      for (const auto& watched : wires_) {
        if (now >= next_check) (void)watched->wire->check_peer(now);
        watched->step(now);
      }
      if (now >= next_check) next_check = now + kCheckIntervalNs;
      if (done(now)) return true;
    }
    return false;
  }

  // The wires that are named must fail within a second after the peer timeout, or `extra_ns` later.
  void expect_found(TimeNs since, const std::vector<WatchedWire*>& watched, TimeNs extra_ns = 0) {
    EXPECT_TRUE(drive_until([&](TimeNs) {
      return std::all_of(watched.begin(), watched.end(),
                         [](const WatchedWire* one) { return !one->failure.is_ok(); });
    }));
    for (const WatchedWire* one : watched) {
      std::printf("%-40s %.2f s: %s\n", one->name.c_str(), seconds(one->failure_time - since),
                  one->failure.to_string().c_str());
      EXPECT_LE(one->failure_time - since, times().peer_timeout_ns + kNsPerSecond + extra_ns)
          << one->name;
    }
  }

  SystemClock clock_;
  HostPair hosts_;
  std::unique_ptr<WireContext> near_;
  std::vector<std::unique_ptr<WatchedWire>> wires_;
};

TEST_F(HostsTest, AHostThatVanishesIsFoundIdleOrWithBytesUnderWayOrWhileConnecting) {
  ReaderProcess reader(hosts_.far(), HostPair::kFarAddress, 1'000);
  WatchedWire& idle = connect("idle", reader.address());
  WatchedWire& late = connect("written to after the cut", reader.address());
  WatchedWire& busy = connect("in the middle of a stream", reader.address());
  idle.total_bytes = late.total_bytes = 1'000;
  busy.total_bytes = uint64_t{1} << 40;
  ASSERT_TRUE(drive_until([&](TimeNs) {
    return reader.read_bytes() > 100'000'000 && idle.written_bytes > 0 && late.written_bytes > 0;
  }));

  hosts_.cut_cable();
  const TimeNs cut = clock_.now();
  late.total_bytes += 5'000'000;
  WatchedWire& connecting = connect("connecting", reader.address());
  expect_found(cut, {&idle, &late, &busy, &connecting});
  for (const WatchedWire* one : {&idle, &late, &busy}) {
    EXPECT_EQ(one->failure.code(), StatusCode::PeerLost);
    EXPECT_THAT(one->failure.message(), HasSubstr("the peer's host has not answered for "));
  }
  // After three seconds the kernel gives up to look for the host on the cable.
  EXPECT_THAT(connecting.failure.message(),
              AnyOf(HasSubstr("no answer from " + reader.address()),
                    HasSubstr("cannot reach " + reader.address() + " from ")));
  const iovec nothing{};
  EXPECT_EQ(busy.wire->write({&nothing, 1}).status().code(), StatusCode::PeerLost);
}

TEST_F(HostsTest, AStoppedProcessIsNeverLostAndReadsEveryByteOnceItGoesOn) {
  ReaderProcess reader(hosts_.far(), HostPair::kFarAddress, kReportBytes);
  WatchedWire& idle = connect("idle", reader.address());
  WatchedWire& full = connect("full", reader.address());
  full.total_bytes = kReportBytes;
  ASSERT_TRUE(drive_until([&](TimeNs) { return reader.read_bytes() == kReportBytes; }));

  reader.stop();
  full.total_bytes = kQueuedBytes;
  const TimeNs stopped = clock_.now();
  ASSERT_TRUE(drive_until([&](TimeNs now) { return now - stopped >= times().stopped_ns; }));
  EXPECT_LT(full.written_bytes, kQueuedBytes) << "the window is closed";
  EXPECT_EQ(idle.failure.to_string(), "ok");
  EXPECT_EQ(full.failure.to_string(), "ok");
  WatchedWire& meanwhile = connect("meanwhile", reader.address());
  meanwhile.total_bytes = kReportBytes;

  reader.go_on();
  EXPECT_TRUE(
      drive_until([&](TimeNs) { return reader.read_bytes() == kQueuedBytes + kReportBytes; }));
  for (const auto& watched : wires_) EXPECT_EQ(watched->failure.to_string(), "ok");
}

TEST_F(HostsTest, AHostThatVanishesWhileItsProcessIsStoppedIsFoundToo) {
  ReaderProcess reader(hosts_.far(), HostPair::kFarAddress, kReportBytes);
  WatchedWire& full = connect("stopped and full", reader.address());
  full.total_bytes = kReportBytes;
  ASSERT_TRUE(drive_until([&](TimeNs) { return reader.read_bytes() == kReportBytes; }));
  reader.stop();
  full.total_bytes = kQueuedBytes;
  const TimeNs stopped = clock_.now();
  constexpr TimeNs kClosedNs = 3 * kNsPerSecond / 2;
  ASSERT_TRUE(drive_until([&](TimeNs now) { return now - stopped >= kClosedNs; }));
  hosts_.cut_cable();
  // Kernels before Linux 6.15 probe the window after as long again as it has been closed.
  expect_found(clock_.now(), {&full}, kClosedNs);
  EXPECT_EQ(full.failure.code(), StatusCode::PeerLost);
}

TEST_F(HostsTest, AnOutageThatIsShorterThanTheTimeoutIsSurvived) {
  ReaderProcess reader(hosts_.far(), HostPair::kFarAddress, kReportBytes);
  WatchedWire& busy = connect("busy", reader.address());
  busy.total_bytes = kReportBytes;
  ASSERT_TRUE(drive_until([&](TimeNs) { return reader.read_bytes() == kReportBytes; }));
  hosts_.cut_cable();
  busy.total_bytes = kQueuedBytes;
  const TimeNs cut = clock_.now();
  ASSERT_TRUE(drive_until([&](TimeNs now) { return now - cut >= times().peer_timeout_ns / 2; }));
  hosts_.mend_cable();
  // A stream that only gets acknowledgements, for longer than the timeout.
  busy.total_bytes = uint64_t{1} << 40;
  EXPECT_TRUE(drive_until([&](TimeNs now) {
    return now - cut >= times().peer_timeout_ns * 5 / 4 && reader.read_bytes() >= kQueuedBytes;
  }));
  EXPECT_EQ(busy.failure.to_string(), "ok");
}

TEST_F(HostsTest, RefusedUnansweredAndUnreachableAreToldApart) {
  const std::unique_ptr<WireContext> far = make_context(hosts_.far(), HostPair::kFarAddress);
  hosts_.near().ip("route add unreachable 10.213.91.0/24");
  hosts_.near().ip("route add prohibit 10.213.92.0/24");
  hosts_.far().ip(std::string("route add blackhole ") + HostPair::kNearAddress + "/32");
  const std::string dead = std::string("tcp://") + HostPair::kNearAddress + ":1";
  const WatchedWire& refused = connect("refused", dead);
  const WatchedWire& silent = connect("silent", far->address());
  const WatchedWire& unreachable = connect("unreachable", "tcp://10.213.91.1:5000");
  const WatchedWire& prohibited = connect("prohibited", "tcp://10.213.92.1:5000");
  const WatchedWire& nowhere = connect("nowhere", "tcp://10.213.93.1:5000");
  EXPECT_TRUE(drive_until([&](TimeNs) {
    return std::all_of(wires_.begin(), wires_.end(),
                       [](const auto& watched) { return !watched->failure.is_ok(); });
  }));
  EXPECT_EQ(refused.failure.to_string(), "network: nobody listens at " + dead +
                                             ": the process is gone or the port is another one's");
  EXPECT_THAT(silent.failure.to_string(),
              testing::MatchesRegex("peer lost: no answer from " + far->address() +
                                    " for [0-9]+.[0-9] s: is a firewall dropping what is sent "
                                    "there, or is the host down."));
  EXPECT_EQ(unreachable.failure.to_string(),
            "network: cannot reach tcp://10.213.91.1:5000 (No route to host): the host is down, "
            "its cable is, or MCCL_SOCKET_IFNAME has to name another network");
  EXPECT_EQ(prohibited.failure.to_string(),
            "network: cannot reach tcp://10.213.92.1:5000 (Permission denied): a firewall or a "
            "route of this host forbids it");
  EXPECT_EQ(nowhere.failure.to_string(),
            "network: cannot reach tcp://10.213.93.1:5000 (Network is unreachable): no route of "
            "this host leads there; MCCL_SOCKET_IFNAME chooses another network");
}

// "--NAME=SECONDS"
bool read_seconds(std::string_view argument, std::string_view name, TimeNs* time_ns) {
  if (argument.substr(0, name.size()) != name) return false;
  *time_ns = std::stoll(std::string(argument.substr(name.size()))) * kNsPerSecond;
  return true;
}

}  // namespace
}  // namespace mccl

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  for (int index = 1; index < argc; ++index) {
    if (mccl::read_seconds(argv[index], "--peer-timeout-s=", &mccl::times().peer_timeout_ns) ||
        mccl::read_seconds(argv[index], "--stopped-s=", &mccl::times().stopped_ns))
      continue;
    std::fprintf(stderr,
                 "hosts_test: unknown argument %s; there are --peer-timeout-s=SECONDS and "
                 "--stopped-s=SECONDS\n",
                 argv[index]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
