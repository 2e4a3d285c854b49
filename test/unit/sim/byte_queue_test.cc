#include "sim/byte_queue.h"

#include <gtest/gtest.h>

#include <string>

#include "base/prng.h"
#include "talking_node.h"

namespace mccl::sim {
namespace {

TEST(ByteQueue, GivesBytesBackInOrderWhateverThePieces) {
  const std::string all = counting_text(100'000);
  ByteChunkPool pool;
  ByteQueue queue(pool);
  Prng prng(3);
  std::string got;
  size_t put_bytes = 0;
  while (got.size() < all.size()) {
    const size_t in_bytes = std::min<size_t>(prng.below(9'000), all.size() - put_bytes);
    queue.append(all.data() + put_bytes, in_bytes);
    put_bytes += in_bytes;
    std::string part(std::min<size_t>(prng.below(9'000), queue.size_bytes()), '\0');
    queue.take(part.data(), part.size());
    got += part;
  }
  EXPECT_TRUE(got == all);
  EXPECT_EQ(queue.size_bytes(), 0u);
}

TEST(ByteQueue, TakingIntoNullThrowsBytesAway) {
  ByteChunkPool pool;
  ByteQueue queue(pool);
  queue.append("abcdef", 6);
  queue.take(nullptr, 4);
  char rest[2];
  queue.take(rest, 2);
  EXPECT_EQ(std::string(rest, 2), "ef");
}

TEST(ByteQueue, BlankBytesCountButLeaveTheReadersMemoryAsItIs) {
  ByteChunkPool pool;
  ByteQueue queue(pool);
  queue.append("ab", 2);
  queue.append_blank(3);
  queue.append("cd", 2);
  queue.append_blank(2);
  EXPECT_EQ(queue.size_bytes(), 9u);
  std::string got = "123456";
  queue.take(got.data(), 4);
  EXPECT_EQ(got, "ab3456");
  queue.take(got.data(), 2);
  EXPECT_EQ(got, "ac3456");
  queue.take(got.data(), 3);
  EXPECT_EQ(got, "dc3456");
  EXPECT_EQ(queue.size_bytes(), 0u);
  queue.append("xy", 2);
  queue.take(got.data(), 2);
  EXPECT_EQ(got, "xy3456");
}

TEST(ByteQueueDeathTest, TakingMoreThanThereIsAborts) {
  ByteChunkPool pool;
  ByteQueue queue(pool);
  queue.append("abc", 3);
  EXPECT_DEATH(queue.take(nullptr, 4), "4 against 3");
}

TEST(ByteChunkPool, HandsOutReturnedChunksFirst) {
  ByteChunkPool pool;
  ByteChunk* first = pool.take();
  ByteChunk* second = pool.take();
  EXPECT_NE(first, second);
  pool.give(first);
  EXPECT_EQ(pool.take(), first);
}

}  // namespace
}  // namespace mccl::sim
