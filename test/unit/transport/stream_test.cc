// Laws L1 and L2 at the level of streams: credit, grants, parking, targets and hand-over.
#include "transport/stream.h"

#include <gtest/gtest.h>

#include "link_pair.h"

namespace mccl {
namespace {

constexpr size_t kLarge = kStandingMessageBytesMax + 1;

TEST(Stream, GivesMessagesInOrderWithTheirFingerprintAndSequence) {
  LinkPair pair;
  CountingOwner sender, receiver;
  std::string first = "first", second = "second";
  pair.send_end().add_owner(&sender, 5);
  pair.recv_end().add_owner(&receiver, 5, 2, 16);
  EXPECT_EQ(post_bytes(pair.send_end(), first, 8), 1U);
  EXPECT_EQ(post_bytes(pair.send_end(), second, 9), 2U);
  pair.run();

  ASSERT_EQ(pair.recv_end().parked_count(), 2U);
  const InMessage one = pair.recv_end().take(true);
  EXPECT_EQ(text_of(one), "first");
  EXPECT_EQ(one.sequence, 5U);
  EXPECT_EQ(one.fingerprint, fingerprint_of(8));
  EXPECT_EQ(text_of(pair.recv_end().take(false)), "second");
  EXPECT_FALSE(pair.recv_end().has_message());
  EXPECT_EQ(pair.right.heads, (std::vector<Fingerprint>{fingerprint_of(8), fingerprint_of(9)}));
  EXPECT_EQ(receiver.wakes, 2);
}

TEST(Stream, CarriesAnEmptyMessageAsAMessage) {
  LinkPair pair;
  CountingOwner sender, receiver;
  std::string nothing;
  pair.send_end().add_owner(&sender, 0);
  pair.recv_end().add_owner(&receiver, 0, 2, 16);
  post_bytes(pair.send_end(), nothing);
  pair.run();

  ASSERT_TRUE(pair.recv_end().has_message());
  EXPECT_EQ(pair.recv_end().take(false).bytes, 0U);
}

TEST(Stream, AllowsTwoStandingMessagesWithoutAGrantAndNoThird) {
  LinkPair pair;
  CountingOwner sender;
  std::string text = "x";
  SendStream& stream = pair.send_end();
  stream.add_owner(&sender, 0);
  EXPECT_TRUE(stream.has_credit(kStandingMessageBytesMax));
  EXPECT_FALSE(stream.has_credit(kLarge));
  post_bytes(stream, text);
  EXPECT_TRUE(stream.has_credit(1));
  post_bytes(stream, text);
  EXPECT_FALSE(stream.has_credit(1));
  pair.run();  // arrival alone gives nothing back
  EXPECT_FALSE(stream.has_credit(1));
}

TEST(Stream, TakingAMessageGivesItsCreditBackAndWakesTheSender) {
  LinkPair pair;
  CountingOwner sender, receiver;
  std::string text = "x";
  SendStream& stream = pair.send_end();
  stream.add_owner(&sender, 0);
  pair.recv_end().add_owner(&receiver, 0, 2, 16);
  post_bytes(stream, text);
  post_bytes(stream, text);
  pair.run();
  const int wakes_before = sender.wakes;
  // The message still lies where it arrived: its credit goes back because it was taken.
  const InMessage kept = pair.recv_end().take(true);
  pair.run();

  EXPECT_TRUE(stream.has_credit(1));
  EXPECT_EQ(sender.wakes, wakes_before + 1);
  post_bytes(stream, text);
  EXPECT_FALSE(stream.has_credit(1));
  EXPECT_EQ(text_of(kept), "x");
}

TEST(Stream, GrantsLargeMessagesForOneOperationOnly) {
  LinkPair pair;
  CountingOwner first, second, receiver;
  SendStream& stream = pair.send_end();
  stream.add_owner(&first, 4);
  stream.add_owner(&second, 5);
  pair.recv_end().add_owner(&receiver, 4, 3, kLarge);
  pair.run();

  EXPECT_TRUE(stream.has_credit(kLarge));
  EXPECT_FALSE(stream.has_credit(kLarge + 1));
  std::string large(kLarge, 'a');
  for (int message = 0; message < 3; ++message) post_bytes(stream, large);
  EXPECT_FALSE(stream.has_credit(kLarge));
  pair.run();
  while (pair.recv_end().has_message()) pair.recv_end().take(true);
  pair.run();
  EXPECT_TRUE(stream.has_credit(kLarge));
  stream.pass_on();
  EXPECT_TRUE(stream.is_owned_by(&second));
  EXPECT_FALSE(stream.has_credit(kLarge));
}

TEST(Stream, ForgetsAGrantThatCameAfterItsOperation) {
  LinkPair pair;
  CountingOwner first, second, late;
  SendStream& stream = pair.send_end();
  stream.add_owner(&first, 0);
  stream.add_owner(&second, 1);
  stream.pass_on();
  pair.recv_end().add_owner(&late, 0, 2, kLarge);
  pair.recv_end().add_owner(&late, 1, 2, kLarge + 5);
  pair.run();

  EXPECT_TRUE(stream.has_credit(kLarge + 5));
}

TEST(Stream, PassesEachEndOnByItselfInTicketOrder) {
  LinkPair pair;
  CountingOwner first, second;
  SendStream& stream = pair.send_end();
  stream.add_owner(&first, 0);
  stream.add_owner(&second, 1);
  EXPECT_TRUE(stream.is_owned_by(&first));
  EXPECT_FALSE(stream.is_owned_by(&second));
  std::string text = "of 0", next = "of 1";
  post_bytes(stream, text);
  stream.pass_on();  // queued, not captured, not taken
  EXPECT_TRUE(stream.is_owned_by(&second));
  EXPECT_EQ(second.wakes, 1);
  post_bytes(stream, next);
  pair.run();

  // Nobody owns the receiving end yet: both parked in order.
  EXPECT_EQ(pair.recv_end().next().sequence, 0U);
  EXPECT_EQ(text_of(pair.recv_end().take(true)), "of 0");
  EXPECT_EQ(pair.recv_end().next().sequence, 1U);
  EXPECT_EQ(text_of(pair.recv_end().take(true)), "of 1");
}

TEST(Stream, LaysAMessageStraightIntoThePostedTarget) {
  LinkPair pair;
  CountingOwner sender, receiver;
  pair.send_end().add_owner(&sender, 0);
  pair.recv_end().add_owner(&receiver, 0, 2, kLarge);
  std::string memory(kLarge, '.');
  const iovec halves[] = {{memory.data(), 10}, {memory.data() + 10, kLarge - 10}};
  pair.recv_end().post_target(halves, kLarge);
  pair.run();
  std::string large(kLarge, 'b');
  post_bytes(pair.send_end(), large);
  pair.run();

  ASSERT_TRUE(pair.recv_end().has_message());
  EXPECT_TRUE(pair.recv_end().take(true).is_in_target);
  EXPECT_EQ(memory, large);
  EXPECT_FALSE(pair.recv_end().has_target());
}

TEST(Stream, ParksAMessageWhoseLengthIsNotTheTargets) {
  LinkPair pair;
  CountingOwner sender, receiver;
  pair.send_end().add_owner(&sender, 0);
  pair.recv_end().add_owner(&receiver, 0, 2, kLarge);
  std::string memory(kLarge, '.');
  const iovec piece{memory.data(), kLarge};
  pair.recv_end().post_target({&piece, 1}, kLarge);
  pair.run();
  std::string shorter(kLarge - 1, 'b');
  post_bytes(pair.send_end(), shorter);
  pair.run();

  const InMessage message = pair.recv_end().take(true);
  EXPECT_FALSE(message.is_in_target);
  EXPECT_EQ(text_of(message), shorter);
  EXPECT_EQ(memory, std::string(kLarge, '.'));
}

TEST(Stream, CapturesAMessageWhenTheWireHasTakenIt) {
  LinkPair pair({.latency_ns = 1'000, .queue_bytes_max = 64 * 1024, .reads_late = true});
  CountingOwner sender, receiver, watcher;
  pair.send_end().add_owner(&sender, 0);
  pair.recv_end().add_owner(&receiver, 0, 2, 400'000);
  pair.run();
  std::string large(400'000, 'c');
  const uint32_t position = post_bytes(pair.send_end(), large);
  pair.send_end().watch_capture(position, &watcher);
  pair.left.step();
  EXPECT_FALSE(pair.send_end().is_captured(position));
  EXPECT_EQ(watcher.wakes, 0);
  pair.run();

  EXPECT_TRUE(pair.send_end().is_captured(position));
  EXPECT_EQ(watcher.wakes, 1);
  EXPECT_EQ(text_of(pair.recv_end().take(true)), large);
}

TEST(Stream, SendsSmallMessagesOfOtherStreamsBeforeTheRestOfALargeOne) {
  LinkPair pair;
  CountingOwner sender, receiver;
  const size_t huge = 4 * kFramePayloadBytesMax;
  pair.send_end().add_owner(&sender, 0);
  pair.recv_end().add_owner(&receiver, 0, 2, huge);
  SendStream& other = pair.left.link_to(pair.right).send_stream(kCommunicator, 9);
  other.add_owner(&sender, 1);
  pair.run();
  std::string large(huge, 'd'), small = "small";
  post_bytes(pair.send_end(), large, 1);
  post_bytes(other, small, 2);
  std::vector<std::string> completed;
  RecvStream& other_end = pair.right.link_to(pair.left).recv_stream(kCommunicator, 9);
  pair.right.on_pass = [&] {
    if (other_end.has_message()) completed.push_back(text_of(other_end.take(false)));
    if (pair.recv_end().has_message()) {
      completed.push_back("large");
      pair.recv_end().take(false);
    }
  };
  pair.run();

  EXPECT_EQ(completed, (std::vector<std::string>{"small", "large"}));
  EXPECT_EQ(pair.right.heads, (std::vector<Fingerprint>{fingerprint_of(2), fingerprint_of(1)}));
}

}  // namespace
}  // namespace mccl
