#include "mccl/status.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

TEST(Status, IsOkAndEmptyByDefault) {
  const Status status;
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.to_string(), "ok");
}

TEST(Status, KeepsCodeMessageRankAndPeerWhenCopied) {
  const Status first(StatusCode::PeerLost, "rank 2 closed its connection", 0, 2);
  const Status copy = first;
  EXPECT_EQ(copy.code(), StatusCode::PeerLost);
  EXPECT_EQ(copy.to_string(), "peer lost: rank 2 closed its connection");
  EXPECT_EQ(copy.rank(), 0);
  EXPECT_EQ(copy.peer(), 2);
}

TEST(Status, AnOkCodeDropsItsMessage) {
  EXPECT_EQ(Status(StatusCode::Ok, "ignored").message(), "");
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<int> value = 7;
  Result<int> error = Status(StatusCode::Timeout, "late");
  EXPECT_EQ(value.value(), 7);
  EXPECT_TRUE(value.status().is_ok());
  EXPECT_EQ(error.status().to_string(), "timeout: late");
}

}  // namespace
}  // namespace mccl
