// What a store's client and server say to each other: one request, one answer, again and again on
// one connection. A request is its header, the key and the value; an answer its header and the
// value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace mccl {

static_assert(std::endian::native == std::endian::little, "headers are sent as they lie in memory");

constexpr size_t kStoreKeyBytesMax = 256;
constexpr size_t kStoreValueBytesMax = size_t{16} << 20;

enum class StoreRequestKind : uint8_t { Set = 1, Get = 2 };

struct StoreRequestHeader {
  static constexpr uint32_t kMagic = 0x3153434d;  // "MCS1"

  uint32_t magic = kMagic;
  StoreRequestKind kind = StoreRequestKind::Get;
  uint8_t unused = 0;
  uint16_t key_bytes = 0;
  uint32_t value_bytes = 0;  // of a set
  uint32_t unused_too = 0;
  int64_t timeout_ns = 0;  // of a get: how long the server may keep it
};
static_assert(sizeof(StoreRequestHeader) == 24);

enum class StoreOutcome : uint8_t { Done = 1, Nothing = 2 };

struct StoreAnswerHeader {
  static constexpr uint32_t kMagic = 0x3141434d;  // "MCA1"

  uint32_t magic = kMagic;
  StoreOutcome outcome = StoreOutcome::Done;
  uint8_t unused[3] = {};
  uint32_t value_bytes = 0;
};
static_assert(sizeof(StoreAnswerHeader) == 12);

}  // namespace mccl
