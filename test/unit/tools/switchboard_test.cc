// Over loopback: who connects, and what becomes of strangers.
#include "doctor/switchboard.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace mccl {
namespace {

using Kind = Switchboard::Event::Kind;

constexpr TimeNs kStuckNs = 20 * kNsPerSecond;  // only a test that fails waits as long

class SwitchboardTest : public testing::Test {
 protected:
  static std::unique_ptr<Switchboard> make(TimeNs answer_ns) {
    static const SystemClock clock;
    return Switchboard::listen(parse_host("127.0.0.1", 0).value(), {.answer_ns = answer_ns}, clock)
        .value();
  }

  // A connection of somebody who is no doctor.
  FileDescriptor connect_stranger() {
    int error_number = 0;
    FileDescriptor socket = start_connecting(board_->address(), &error_number);
    pollfd watched{socket.number(), POLLOUT, 0};
    EXPECT_EQ(::poll(&watched, 1, -1), 1);
    EXPECT_EQ(finish_connecting(socket.number()), 0);
    return socket;
  }

  // The next event of `board`.
  Switchboard::Event next(Switchboard& board) {
    if (pending_.empty())
      for (Switchboard::Event& event : board.wait(clock_.now() + kStuckNs))
        pending_.push_back(std::move(event));
    EXPECT_FALSE(pending_.empty());
    if (pending_.empty()) return {};
    Switchboard::Event event = std::move(pending_.front());
    pending_.erase(pending_.begin());
    return event;
  }

  // What the board says of a stranger who sends this.
  std::string words_after(const std::string& bytes) {
    const FileDescriptor stranger = connect_stranger();
    EXPECT_EQ(send_now(stranger.number(), bytes), static_cast<int64_t>(bytes.size()));
    const Switchboard::Event event = next(*board_);
    EXPECT_EQ(event.kind, Kind::Ended);
    EXPECT_EQ(event.failure.outcome, Outcome::Broken);
    return event.failure.words;
  }

  SystemClock clock_;
  std::unique_ptr<Switchboard> board_ = make(kStuckNs);
  std::vector<Switchboard::Event> pending_;
};

TEST_F(SwitchboardTest, CutsWhatComesIntoMessages) {
  const FileDescriptor peer = connect_stranger();
  const std::string lines = write_message({.kind = MessageKind::Turn, .from = 1, .to = 2}) +
                            write_message({.kind = MessageKind::Welcome});
  ASSERT_EQ(send_now(peer.number(), std::string_view(lines).substr(0, 30)), 30);
  ASSERT_EQ(send_now(peer.number(), std::string_view(lines).substr(30)),
            static_cast<int64_t>(lines.size() - 30));
  const Switchboard::Event turn = next(*board_);
  EXPECT_EQ(turn.kind, Kind::Message);
  EXPECT_EQ(turn.message, (DoctorMessage{.kind = MessageKind::Turn, .from = 1, .to = 2}));
  EXPECT_EQ(next(*board_).message.kind, MessageKind::Welcome);
}

TEST_F(SwitchboardTest, EndsStrangers) {
  EXPECT_EQ(words_after("GET / HTTP/1.1\r\n"),
            "what listens there is not a doctor of this version");
  EXPECT_EQ(words_after(std::string(8193, 'a')),
            "what listens there is not a doctor: its line has no end");
}

TEST_F(SwitchboardTest, EndsWhoSaysNothing) {
  board_ = make(kNsPerMs);
  const FileDescriptor stranger = connect_stranger();
  EXPECT_EQ(next(*board_).failure.words,
            "connected, but no answer came: what listens there is stopped, or not a doctor");
}

TEST_F(SwitchboardTest, SaysWhyADialFails) {
  const SocketAddress gone = make(kStuckNs)->address();
  const Switchboard::Id id = board_->dial(gone);
  const Switchboard::Event event = next(*board_);
  EXPECT_EQ(event.kind, Kind::Ended);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.failure.outcome, Outcome::Refused);
  EXPECT_EQ(event.failure.words, "nobody listens at tcp://" + to_string(gone) +
                                     ": the process is gone or the port is another one's");
}

TEST_F(SwitchboardTest, NamesWhoHoldsThePort) {
  const auto second = Switchboard::listen(board_->address(), {}, clock_);
  ASSERT_FALSE(second.is_ok());
  EXPECT_EQ(second.status().code(), StatusCode::Network);
  const std::string& words = second.status().message();
  EXPECT_NE(words.find("Address already in use (port "), std::string::npos) << words;
  EXPECT_NE(words.find("--port chooses another one, the same on all hosts"), std::string::npos);
}

// Both sides of a measurement, each counting what the other one does.
TEST_F(SwitchboardTest, ServesWhoMeasures) {
  PairResult result;
  const MeasureTask task = {
      .peer = board_->address(),
      .greeting = {.kind = MessageKind::Measure, .from = 1, .to = 0, .hosts = "a,b"}};
  std::thread measuring([&] {
    result = measure_pair(task, {.answer_ns = kStuckNs, .stream_bytes = 1 << 20}, clock_);
  });
  const Switchboard::Event event = next(*board_);
  EXPECT_EQ(event.message, task.greeting);
  board_->send(event.id, {.kind = MessageKind::Ready});
  board_->serve(event.id);
  std::thread ending([&] {
    measuring.join();
    (void)connect_stranger();
  });
  // What is served is not reported, so the next event is of the connection behind it.
  EXPECT_NE(next(*board_).id, event.id);
  ending.join();
  EXPECT_EQ(result.outcome, Outcome::Ok) << result.words;
  EXPECT_EQ(result.interface, "lo");
  EXPECT_EQ(result.to_address, to_string(board_->address()));
}

}  // namespace
}  // namespace mccl
