// Times are arguments: nothing here waits.
#include "transport/peer_silence.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

constexpr TimeNs kSecond = kNsPerSecond;

// Asks a watch of 10 s every second from 1000 s on; returns after how many seconds it says "lost",
// -1 for never. `peer` says what the kernel would at that second.
template <typename Peer>
int seconds_until_lost(const Peer& peer) {
  SilenceWatch watch(10 * kSecond);
  for (int second = 0; second <= 60; ++second)
    if (watch.is_lost(peer(second), (1'000 + second) * kSecond)) return second;
  return -1;
}

TEST(SilenceTimers, SplitTheTimeoutIntoIdlenessAndProbesThatEndItInTime) {
  struct Case {
    double timeout_s;
    int idle_s, interval_s, count;
  };
  for (const Case& one : {Case{0.001, 1, 1, 1},
                          {1, 1, 1, 1},
                          {2, 1, 1, 1},
                          {2.5, 1, 1, 2},
                          {5, 2, 1, 3},
                          {10, 5, 1, 5},
                          {10.5, 5, 1, 6},
                          {254, 127, 1, 127},
                          {300, 173, 1, 127},
                          {36'000, 32'767, 26, 125}}) {
    const auto timeout_ns = static_cast<TimeNs>(one.timeout_s * 1e9);
    const SilenceTimers timers = silence_timers(timeout_ns);
    EXPECT_EQ(timers.keep_idle_s, one.idle_s) << one.timeout_s;
    EXPECT_EQ(timers.keep_interval_s, one.interval_s) << one.timeout_s;
    EXPECT_EQ(timers.keep_count, one.count) << one.timeout_s;
  }
}

TEST(SilenceTimers, LetTheKernelRepeatForLongerThanTheTimeout) {
  EXPECT_EQ(silence_timers(10 * kSecond).connect_tries, 11);
  EXPECT_EQ(silence_timers(10 * kSecond).retransmit_interval_max_ms, 1'250);
  EXPECT_EQ(silence_timers(2 * kSecond).retransmit_interval_max_ms, 1'000);
  EXPECT_EQ(silence_timers(600 * kSecond).connect_tries, 127);
  EXPECT_EQ(silence_timers(600 * kSecond).retransmit_interval_max_ms, 75'000);
  EXPECT_EQ(silence_timers(10'000'000 * kSecond).retransmit_interval_max_ms, 120'000);
}

TEST(SilenceWatch, LosesAHostThatHasLeftBytesUnansweredForTheTimeout) {
  // The last answer came at second 3.2.
  EXPECT_EQ(seconds_until_lost([](int second) {
              const TimeNs silent_ns = second * kSecond - 3'200 * kNsPerMs;
              return second <= 3 ? PeerSilence{true, 0} : PeerSilence{true, silent_ns};
            }),
            14);
}

TEST(SilenceWatch, NeverLosesAnIdleHostHoweverLongItSaysNothing) {
  EXPECT_EQ(seconds_until_lost([](int second) {
              return PeerSilence{false, second * kSecond};
            }),
            -1);
}

TEST(SilenceWatch, LosesAHostWhoseProbesBeganInTheMiddleOfTheSilence) {
  EXPECT_EQ(seconds_until_lost([](int second) {
              return PeerSilence{second >= 6, second * kSecond};
            }),
            11);
}

// An idle connection may be silent for half of the timeout before it is asked anything.
TEST(SilenceWatch, GivesAHostHalfOfTheTimeoutToAnswerHoweverLongNobodyAskedIt) {
  EXPECT_EQ(seconds_until_lost([](int second) {
              return PeerSilence{second >= 20, second * kSecond};
            }),
            25);
}

TEST(SilenceWatch, IsClearedByEveryAnswer) {
  // Something is always under way, and an answer comes every nine seconds.
  EXPECT_EQ(seconds_until_lost([](int second) {
              return PeerSilence{true, second % 9 * kSecond};
            }),
            -1);
}

// A stopped peer's kernel answers each probe of its closed window, up to two minutes apart: the
// probe is seen unanswered for the moment that the answer takes.
TEST(SilenceWatch, IsNotDeceivedByAProbeThatIsBeingAnswered) {
  EXPECT_EQ(seconds_until_lost([](int second) {
              return PeerSilence{second % 30 == 29, second % 30 * kSecond};
            }),
            -1);
}

TEST(SilenceWatch, DoesNotCountWhatWasUnansweredWhileNobodyLooked) {
  SilenceWatch watch(10 * kSecond);
  EXPECT_FALSE(watch.is_lost({true, 0}, 100 * kSecond));
  // The process was stopped, or the machine slept.
  EXPECT_FALSE(watch.is_lost({true, 60 * kSecond}, 160 * kSecond));
  EXPECT_FALSE(watch.is_lost({true, 62 * kSecond}, 162 * kSecond));
  EXPECT_FALSE(watch.is_lost({true, 64 * kSecond}, 164 * kSecond));
  EXPECT_TRUE(watch.is_lost({true, 66 * kSecond}, 166 * kSecond));
}

TEST(SilenceWatch, TakesASecondAtLeast) {
  SilenceWatch watch(kNsPerMs);
  EXPECT_EQ(watch.timeout_ns(), kSecond);
  EXPECT_FALSE(watch.is_lost({true, 400 * kNsPerMs}, 0));
  EXPECT_FALSE(watch.is_lost({true, 900 * kNsPerMs}, 500 * kNsPerMs));
  EXPECT_TRUE(watch.is_lost({true, 1'000 * kNsPerMs}, 600 * kNsPerMs));
}

TEST(SilenceWatch, CountsTheWaitForAConnectionFromTheFirstQuestion) {
  SilenceWatch watch(10 * kSecond);
  EXPECT_EQ(watch.connecting_ns(70 * kSecond), 0);
  EXPECT_EQ(watch.connecting_ns(79 * kSecond), 9 * kSecond);
}

}  // namespace
}  // namespace mccl
