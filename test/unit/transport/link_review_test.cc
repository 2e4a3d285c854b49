// Ends and beginnings of communicators as a link sees them: what arrives around them.
#include <gtest/gtest.h>

#include <vector>

#include "link_pair.h"

namespace mccl {
namespace {

TEST(LinkReview, ShowsTheHeadOfAMessageThatHasOnlyBegunToArrive) {
  LinkPair pair({.latency_ns = 1'000, .bytes_per_second = 1'000'000, .segment_bytes_max = 4'096});
  CountingOwner owner;
  pair.send_end().add_owner(&owner, 0);
  std::string text(60'000, 'a');
  post_bytes(pair.send_end(), text, 9);
  std::vector<Fingerprint> seen;
  pair.world.wires(pair.left.node()).wake();
  pair.world.run([&] { return !pair.right.heads.empty(); });
  ASSERT_FALSE(pair.recv_end().has_message());
  pair.right.link_to(pair.left).visit_parked(
      kCommunicator, [&](const InMessage& message) { seen.push_back(message.fingerprint); });
  EXPECT_EQ(seen, (std::vector<Fingerprint>{fingerprint_of(9)}));
}

TEST(LinkReview, KeepsTheLeaveOfACommunicatorThatHasEndedHereToItself) {
  LinkPair pair;
  pair.right.link_to(pair.left).end_communicator(kCommunicator);
  pair.left.link_to(pair.right).send_leave(kCommunicator, Status::ok());
  pair.run();
  EXPECT_TRUE(pair.right.leaves.empty());
}

TEST(LinkReview, TellsALeaveWhenTheWireComesAfterIt) {
  sim::World world({.latency_ns = 1'000});
  Process left(world, 1), right(world, 2);
  right.link_to(left).send_leave(kCommunicator, Status(StatusCode::Timeout, "waited"));
  EXPECT_FALSE(right.transport().has_due_output());  // nothing can be done about it yet
  ASSERT_TRUE(left.transport().connect(right.address()).is_ok());
  world.wires(left.node()).wake();
  world.run([] { return false; });
  EXPECT_EQ(left.leaves, (std::vector<std::string>{"77 timeout: waited"}));
}

// A wire whose writing side is gone while its reading side says nothing.
class HalfDeadWire final : public Wire {
 public:
  Result<size_t> write(std::span<const iovec>) override {
    return Status(StatusCode::PeerLost, "the pipe is broken");
  }
  Result<size_t> read(std::span<const iovec>) override { return size_t{0}; }
  void close() override {}
  std::string describe() const override { return "half dead"; }
};

TEST(LinkReview, FailsWhenOnlyWritingFails) {
  sim::World world({});
  Process process(world, 1);
  BufferPool pool;
  LinkWork work;
  Link link(2, process, pool, work, 0);
  link.attach(std::make_unique<HalfDeadWire>());
  link.send_leave(kCommunicator, Status::ok());
  link.write(true);
  EXPECT_FALSE(link.is_failed()) << "what had arrived is not read yet";
  link.read();
  EXPECT_EQ(process.failure.to_string(), "peer lost: the pipe is broken");
}

TEST(LinkReview, HasNothingToWriteToALostPeer) {
  LinkPair pair;
  pair.world.kill(pair.right.node());
  CountingOwner owner;
  pair.send_end().add_owner(&owner, 0);
  std::string text = "in vain";
  pair.run();
  ASSERT_FALSE(pair.left.failure.is_ok());
  post_bytes(pair.send_end(), text);
  EXPECT_FALSE(pair.left.transport().has_due_output());
}

}  // namespace
}  // namespace mccl
