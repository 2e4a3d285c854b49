#include "sim/byte_queue.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace mccl::sim {

ByteChunk* ByteChunkPool::take() {
  if (free_ == nullptr) {
    // Not make_unique: that would clear four kilobytes that append() overwrites.
    all_.emplace_back(new ByteChunk);
    all_.back()->next = nullptr;
    return all_.back().get();
  }
  ByteChunk* chunk = free_;
  free_ = chunk->next;
  chunk->next = nullptr;
  return chunk;
}

void ByteChunkPool::give(ByteChunk* chunk) {
  chunk->next = free_;
  free_ = chunk;
}

void ByteQueue::append(const void* data, size_t count_bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  size_bytes_ += count_bytes;
  while (count_bytes > 0) {
    if (tail_used_bytes_ == ByteChunk::kBytes) {
      ByteChunk* chunk = pool_->take();
      (tail_ == nullptr ? head_ : tail_->next) = chunk;
      tail_ = chunk;
      tail_used_bytes_ = 0;
    }
    const size_t part_bytes = std::min(count_bytes, ByteChunk::kBytes - tail_used_bytes_);
    std::memcpy(tail_->bytes + tail_used_bytes_, from, part_bytes);
    tail_used_bytes_ += part_bytes;
    from += part_bytes;
    count_bytes -= part_bytes;
  }
}

void ByteQueue::take(void* data, size_t count_bytes) {
  MCCL_CHECK_LE(count_bytes, size_bytes_);
  auto* into = static_cast<unsigned char*>(data);
  size_bytes_ -= count_bytes;
  while (count_bytes > 0) {
    const size_t end_bytes = head_ == tail_ ? tail_used_bytes_ : ByteChunk::kBytes;
    const size_t part_bytes = std::min(count_bytes, end_bytes - head_offset_bytes_);
    if (into != nullptr) {
      std::memcpy(into, head_->bytes + head_offset_bytes_, part_bytes);
      into += part_bytes;
    }
    head_offset_bytes_ += part_bytes;
    count_bytes -= part_bytes;
    if (head_offset_bytes_ != end_bytes) continue;
    ByteChunk* empty = head_;
    head_ = empty->next;
    head_offset_bytes_ = 0;
    if (head_ == nullptr) {
      tail_ = nullptr;
      tail_used_bytes_ = ByteChunk::kBytes;
    }
    pool_->give(empty);
  }
}

}  // namespace mccl::sim
