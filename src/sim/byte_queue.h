// The bytes of one direction of one wire, from write() until the peer's read(): a chain of small
// chunks, so that thousands of idle wires hold no memory and a busy one copies each byte twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mccl::sim {

struct ByteChunk {
  static constexpr size_t kBytes = 4096 - sizeof(void*);
  ByteChunk* next;
  unsigned char bytes[kBytes];
};

// Owns every chunk of a world; chunks that nobody uses are kept for the next taker.
class ByteChunkPool {
 public:
  ByteChunk* take();
  void give(ByteChunk* chunk);

 private:
  std::vector<std::unique_ptr<ByteChunk>> all_;
  ByteChunk* free_ = nullptr;
};

// First in, first out. The pool must outlive the queue's last call; nothing needs to be returned to
// it at the end.
class ByteQueue {
 public:
  explicit ByteQueue(ByteChunkPool& pool) : pool_(&pool) {}
  ByteQueue(const ByteQueue&) = delete;
  ByteQueue& operator=(const ByteQueue&) = delete;

  size_t size_bytes() const { return size_bytes_; }
  void append(const void* data, size_t count_bytes);
  // Appends bytes that only count: whoever takes them gets no values.
  void append_blank(size_t count_bytes);
  // Removes `count_bytes` (at most size_bytes()) from the front into `data`; null throws them away.
  // Where bytes are blank, `data` stays as it is.
  void take(void* data, size_t count_bytes);

 private:
  // In positions of the whole stream.
  struct Blank {
    uint64_t begin;
    uint64_t end;
  };

  void take_stored(unsigned char* into, size_t count_bytes);

  ByteChunkPool* pool_;
  ByteChunk* head_ = nullptr;
  ByteChunk* tail_ = nullptr;
  size_t head_offset_bytes_ = 0;  // already taken from head_
  size_t tail_used_bytes_ = ByteChunk::kBytes;
  size_t size_bytes_ = 0;
  uint64_t taken_bytes_ = 0;
  std::vector<Blank> blanks_;  // ahead of what was taken, in order, from first_blank_ on
  size_t first_blank_ = 0;
};

}  // namespace mccl::sim
