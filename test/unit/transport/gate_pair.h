// Two processes that may connect to each other, and strangers that speak to them by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "link_pair.h"

namespace mccl {

// Bytes by hand on a connection to `process`.
struct HandWire {
  HandWire(sim::World& all, const Process& process)
      : world(all),
        node(all.add_node([] {})),
        wire(all.wires(node).connect(process.address().address, 1).value()) {
    run();
  }
  template <typename Value>
  void send(const Value& value, size_t bytes = sizeof(Value)) {
    const iovec piece{const_cast<Value*>(&value), bytes};
    ASSERT_EQ(wire->write({&piece, 1}).value(), bytes);
    run();
  }
  bool is_closed() {
    Answer answer;
    const iovec piece{&answer, sizeof(answer)};
    for (;;) {
      const Result<size_t> got = wire->read({&piece, 1});
      if (!got.is_ok()) return true;
      if (got.value() == 0) return false;
    }
  }
  void run() {
    world.run([] { return false; });
  }

  sim::World& world;
  int node;
  std::unique_ptr<Wire> wire;
};

struct GatePair {
  explicit GatePair(const std::string& right_secret = {},
                    const sim::WorldOptions& options = {.latency_ns = 1'000})
      : world(options), left(world, 1), right(world, 2, right_secret) {}

  void run() {
    world.wires(left.node()).wake();
    world.wires(right.node()).wake();
    world.run([] { return false; });
  }
  // Both send a message before, and one after, there is a connection.
  void expect_one_link() {
    std::string there = "there", back = "back";
    SendStream& out = left.link_to(right).send_stream(kCommunicator, kChannel);
    SendStream& in = right.link_to(left).send_stream(kCommunicator, kChannel);
    out.add_owner(&owner, 0);
    in.add_owner(&owner, 0);
    post_bytes(out, there);
    post_bytes(in, back);
    run();
    EXPECT_EQ(left.failure.to_string(), "ok");
    EXPECT_EQ(right.failure.to_string(), "ok");
    RecvStream& out_end = right.link_to(left).recv_stream(kCommunicator, kChannel);
    RecvStream& in_end = left.link_to(right).recv_stream(kCommunicator, kChannel);
    ASSERT_TRUE(out_end.has_message());
    ASSERT_TRUE(in_end.has_message());
    EXPECT_EQ(text_of(out_end.take(false)), "there");
    EXPECT_EQ(text_of(in_end.take(false)), "back");
    run();
    EXPECT_EQ(left.link_to(right).bytes_written(), right.link_to(left).bytes_read());
    EXPECT_EQ(right.link_to(left).bytes_written(), left.link_to(right).bytes_read());
  }

  CountingOwner owner;  // before the links, whose streams name it
  sim::World world;
  Process left;
  Process right;
};

}  // namespace mccl
