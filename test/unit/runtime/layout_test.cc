// Law L4: one way to cut a block into chunks.
#include "runtime/layout.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

std::vector<int64_t> lengths(int64_t count, int chunk_count) {
  const ChunkGeometry geometry = ChunkGeometry::of(count, chunk_count);
  std::vector<int64_t> result;
  int64_t begin = 0;
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    EXPECT_EQ(geometry.begin(chunk), begin);
    result.push_back(geometry.length(chunk));
    begin += result.back();
  }
  EXPECT_EQ(begin, count);
  return result;
}

TEST(ChunkGeometry, CutsEquallyWhereTheCountDivides) {
  EXPECT_EQ(lengths(12, 4), (std::vector<int64_t>{3, 3, 3, 3}));
}

TEST(ChunkGeometry, MakesTheLastChunksShorterOrEmpty) {
  EXPECT_EQ(lengths(10, 4), (std::vector<int64_t>{3, 3, 3, 1}));
  EXPECT_EQ(lengths(9, 4), (std::vector<int64_t>{3, 3, 3, 0}));
  EXPECT_EQ(lengths(5, 4), (std::vector<int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(lengths(2, 4), (std::vector<int64_t>{1, 1, 0, 0}));
}

TEST(ChunkGeometry, CutsNothingIntoEmptyChunks) {
  EXPECT_EQ(lengths(0, 3), (std::vector<int64_t>{0, 0, 0}));
}

}  // namespace
}  // namespace mccl
