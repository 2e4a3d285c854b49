#include "runtime/flight_recorder.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

class FlightRecorderTest : public testing::Test {
 protected:
  void post(uint64_t sequence, uint8_t mark = 0) {
    OperationRecord record;
    record.sequence = sequence;
    record.fingerprint[0] = mark;
    record.posted_at = clock_.now();
    recorder_.post(record);
  }

  ManualClock clock_;
  FlightRecorder recorder_{clock_};
};

TEST_F(FlightRecorderTest, KeepsTheLast1024OperationsOldestFirst) {
  EXPECT_TRUE(recorder_.operations().empty());
  for (uint64_t sequence = 0; sequence < 1025; ++sequence)
    post(sequence, static_cast<uint8_t>(sequence % 251));
  EXPECT_FALSE(recorder_.is_recorded(0));
  EXPECT_TRUE(recorder_.is_recorded(1));
  EXPECT_TRUE(recorder_.is_recorded(1024));
  EXPECT_FALSE(recorder_.is_recorded(1025));
  EXPECT_EQ(recorder_.fingerprint(1024)[0], 1024 % 251);
  const std::vector<OperationRecord> records = recorder_.operations();
  ASSERT_EQ(records.size(), 1024u);
  EXPECT_EQ(records.front().sequence, 1u);
  EXPECT_EQ(records.back().sequence, 1024u);
}

TEST_F(FlightRecorderTest, NotesWhenAnOperationStartsAndEnds) {
  clock_.advance_to(10);
  post(0);
  recorder_.set_state(0, CallState::WaitsForDevice);
  EXPECT_EQ(recorder_.operations()[0].started_at, kNever);
  clock_.advance_to(20);
  recorder_.start(0);
  EXPECT_EQ(recorder_.operations()[0].state, CallState::Running);
  clock_.advance_to(30);
  recorder_.end(0, CallState::Complete);
  const OperationRecord record = recorder_.operations()[0];
  EXPECT_EQ(record.posted_at, 10);
  EXPECT_EQ(record.started_at, 20);
  EXPECT_EQ(record.ended_at, 30);
  EXPECT_EQ(record.state, CallState::Complete);
}

TEST_F(FlightRecorderTest, AFailureKeepsTheStateBeforeIt) {
  post(0);
  recorder_.set_state(0, CallState::WaitsForMemory);
  recorder_.end(0, CallState::Failed);
  EXPECT_EQ(recorder_.operations()[0].state, CallState::Failed);
  EXPECT_EQ(recorder_.operations()[0].failed_in, CallState::WaitsForMemory);
  EXPECT_EQ(recorder_.operations()[0].started_at, kNever);
}

TEST_F(FlightRecorderTest, AnOperationThatWasOverwrittenIsLeftAlone) {
  for (uint64_t sequence = 0; sequence < 1025; ++sequence) post(sequence);
  recorder_.end(0, CallState::Failed);
  EXPECT_EQ(recorder_.operations().back().sequence, 1024u);
  EXPECT_EQ(recorder_.operations().back().state, CallState::Running);
}

TEST_F(FlightRecorderTest, MessagesHaveNumbersAndARingOfTheirOwn) {
  EXPECT_TRUE(recorder_.messages().empty());
  for (uint64_t number = 0; number < 1030; ++number) {
    MessageRecord record;
    record.tag = static_cast<int64_t>(number);
    record.state = CallState::WaitsForPeer;
    EXPECT_EQ(recorder_.post_message(record), number);
  }
  clock_.advance_to(5);
  recorder_.start_message(1029, 77);
  recorder_.end_message(1029, CallState::Complete);
  const std::vector<MessageRecord> records = recorder_.messages();
  ASSERT_EQ(records.size(), 1024u);
  EXPECT_EQ(records.front().tag, 6);
  EXPECT_EQ(records.front().state, CallState::WaitsForPeer);
  EXPECT_EQ(records.back().sequence, 1029u);
  EXPECT_EQ(records.back().peer_process, 77u);
  EXPECT_EQ(records.back().started_at, 5);
  EXPECT_EQ(records.back().state, CallState::Complete);
}

TEST(CallState, HasWords) {
  EXPECT_EQ(call_state_name(CallState::WaitsForMemory), "waits for memory");
  EXPECT_EQ(call_state_name(CallState::Failed), "failed");
}

}  // namespace
}  // namespace mccl
