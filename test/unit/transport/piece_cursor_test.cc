#include "transport/piece_cursor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mccl {
namespace {

iovec piece(std::string& text) {
  return {text.data(), text.size()};
}

// The pieces of a batch, each followed by a bar.
std::string text_of(const msghdr* batch) {
  std::string text;
  for (size_t index = 0; index < batch->msg_iovlen; ++index) {
    const iovec& part = batch->msg_iov[index];
    text.append(static_cast<const char*>(part.iov_base), part.iov_len);
    text += '|';
  }
  return text;
}

TEST(PieceCursor, GoesOnInTheMiddleOfAPiece) {
  std::string first = "abc";
  std::string second = "defgh";
  std::string third = "ij";
  const std::vector<iovec> pieces = {piece(first), piece(second), piece(third)};
  PieceCursor cursor(pieces);
  EXPECT_EQ(text_of(cursor.next_batch()), "abc|defgh|ij|");
  cursor.advance(2);
  EXPECT_EQ(text_of(cursor.next_batch()), "c|defgh|ij|");
  cursor.advance(3);
  EXPECT_EQ(text_of(cursor.next_batch()), "fgh|ij|");
  cursor.advance(3);
  EXPECT_EQ(text_of(cursor.next_batch()), "ij|");
  EXPECT_FALSE(cursor.is_done());
  cursor.advance(2);
  EXPECT_TRUE(cursor.is_done());
}

TEST(PieceCursor, IsDoneWhenOnlyEmptyPiecesAreLeft) {
  std::string text = "ab";
  const std::vector<iovec> pieces = {{nullptr, 0}, piece(text), {nullptr, 0}};
  PieceCursor cursor(pieces);
  EXPECT_FALSE(cursor.is_done());
  cursor.advance(2);
  EXPECT_TRUE(cursor.is_done());
  EXPECT_TRUE(PieceCursor({}).is_done());
}

TEST(PieceCursor, CutsABatchAtTheBytesOfOneCall) {
  std::string first = "abc";
  std::string second = "defgh";
  const std::vector<iovec> pieces = {piece(first), piece(second)};
  PieceCursor cursor(pieces, 4);
  EXPECT_EQ(text_of(cursor.next_batch()), "abc|d|");
  cursor.advance(4);
  EXPECT_EQ(text_of(cursor.next_batch()), "efgh|");
  cursor.advance(1);
  EXPECT_EQ(text_of(cursor.next_batch()), "fgh|");
}

TEST(PieceCursor, CutsABatchAtThePiecesOfOneCall) {
  std::string text(300, 'x');
  std::vector<iovec> pieces;
  for (char& letter : text) pieces.push_back({&letter, 1});
  PieceCursor cursor(pieces);
  EXPECT_EQ(cursor.next_batch()->msg_iovlen, 256u);
  cursor.advance(256);
  EXPECT_EQ(cursor.next_batch()->msg_iovlen, 44u);
}

}  // namespace
}  // namespace mccl
