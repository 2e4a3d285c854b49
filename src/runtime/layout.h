// Where the chunks of a call lie in memory (law L4): one layout for every call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mccl {

// One block of a buffer: `count` elements at `data`. Not owned.
struct Block {
  std::byte* data = nullptr;
  int64_t count = 0;
};

// The buffers of a call, block by block. In place, `input` names memory inside `output`.
struct CallBuffers {
  std::vector<Block> input;
  std::vector<Block> output;
};

// How a block of `count` elements is cut into chunks: ceil(count / chunk_count) each, the last ones
// shorter or empty.
struct ChunkGeometry {
  int64_t count = 0;
  int64_t chunk_elements = 0;

  static ChunkGeometry of(int64_t count, int chunk_count) {
    return {count, (count + chunk_count - 1) / chunk_count};
  }
  int64_t begin(int chunk) const { return std::min(count, chunk * chunk_elements); }
  int64_t length(int chunk) const {
    return std::clamp<int64_t>(count - chunk * chunk_elements, 0, chunk_elements);
  }
};

}  // namespace mccl
