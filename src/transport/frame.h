// The bytes on a connection. Every frame is a fixed header and `payload_bytes` of payload; numbers
// are little-endian, as on every machine we build for. docs/transport.md describes the format.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mccl {

static_assert(std::endian::native == std::endian::little,
              "frames are written as they lie in memory");

// What a call is, as opaque bytes to transport; comm packs and words it (law L9).
using Fingerprint = std::array<uint8_t, 24>;

constexpr uint32_t kHelloMagic = 0x6c63636d;  // "mccl"
constexpr uint16_t kFrameMagic = 0x6d63;      // "cm"
constexpr uint8_t kFrameVersion = 1;

// The handshake: Hello, Answer, ConnectorProof, before all frames. Each side shows that it holds
// the key of the connection by a code over both hellos, so that nothing in it can be used a second
// time.
constexpr uint32_t kHandshakeVersion = 2;  // of everything that follows on the connection
using Nonce = std::array<std::byte, 16>;   // random, never used again
using Mac = std::array<std::byte, 32>;     // HMAC-SHA256; handshake.h says of what

// First bytes on a connection, from the side that connected. What follows is not read before they
// were checked. Magic and version stay where they are in every version.
struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t version = kHandshakeVersion;
  uint64_t from = 0;  // process id of the sender: a random number, published through the store
  uint64_t to = 0;    // process id that the sender wants to talk to
  Nonce nonce = {};
};
static_assert(sizeof(Hello) == 40);

// From the side that accepted. `hello.from` is 0, and there is no proof, when it refuses.
struct Answer {
  Hello hello;
  Mac mac = {};
};
static_assert(sizeof(Answer) == 72);

// From the side that connected; frames may follow at once.
struct ConnectorProof {
  Mac mac = {};
};
static_assert(sizeof(ConnectorProof) == 32);

enum class FrameKind : uint8_t {
  Data = 1,      // part of a message of a stream
  Credits = 2,   // CreditEntry[]: messages taken
  Grants = 3,    // GrantEntry[]: room for large messages of one operation
  Leave = 4,     // the sender destroyed or failed `communicator`; the payload says why, in words;
                 // channel and message_bytes: the status's peer and rank, plus one
  Offer = 5,     // OfferEntry, then the message itself when it is short: point to point
  Match = 6,     // MatchEntry: the receiver of an offer is ready for it, or has taken it
  Announce = 7,  // the sender waits for a grant of this operation, whose fingerprint this is
  Probe = 8,     // the sender has waited long in this operation, whose fingerprint this is (law L9)
  Report = 9,    // the answer, and news to it: opaque to transport, at most kReportBytesMax
};

struct FrameHeader {
  uint16_t magic = kFrameMagic;
  FrameKind kind = FrameKind::Data;
  uint8_t version = kFrameVersion;
  uint32_t payload_bytes = 0;
  uint64_t communicator = 0;
  uint32_t channel = 0;
  uint32_t message_bytes = 0;  // of the whole message that a data frame belongs to
  uint64_t sequence = 0;       // the operation's ticket; in a Leave frame the StatusCode
  Fingerprint fingerprint = {};
};
static_assert(sizeof(FrameHeader) == 56);

struct CreditEntry {
  uint64_t communicator = 0;
  uint32_t channel = 0;
  uint32_t taken = 0;  // messages of the stream taken so far, modulo 2^32
};
static_assert(sizeof(CreditEntry) == 16);

struct GrantEntry {
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  uint32_t channel = 0;
  uint32_t messages = 0;
  uint32_t bytes_max = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(GrantEntry) == 32);

// Point to point: the sender offers a message under a tag; `sequence` of the frame numbers the
// offers of one communicator over one connection.
struct OfferEntry {
  int64_t tag = 0;
  uint64_t bytes = 0;
  uint32_t dtype = 0;
  uint32_t is_eager = 0;  // 1: the message follows in this frame
};
static_assert(sizeof(OfferEntry) == 24);

// The answer, with the offer's number as the frame's sequence.
struct MatchEntry {
  // Which message of the stream kPointToPointChannel it becomes: transfers run in this order. Of an
  // eager offer unused: its bytes are free again.
  uint64_t transfer = 0;
};
static_assert(sizeof(MatchEntry) == 8);

// A rank in a frame is below this.
constexpr uint32_t kRanksMax = 1 << 20;
// Of a report: who is waited for, in words.
constexpr size_t kReportBytesMax = 8 * 1024;

constexpr uint32_t kPointToPointChannel = 0xffffffff;
// Offers of at most this size carry their message, as long as the sender has no more than the
// budget of such bytes with the receiver that have not been taken.
constexpr size_t kEagerBytesMax = 8 * 1024;
constexpr size_t kEagerBudgetBytes = 256 * 1024;

// A frame carries at most this much payload: F of law L1, the most data that a credit waits behind.
constexpr size_t kFramePayloadBytesMax = 256 * 1024;
// Standing grant of every stream: two messages of at most this size need no round trip (law L2).
// 64 KiB: the round trip of a grant costs as much as moving so many bytes (docs/decisions/0003).
constexpr size_t kStandingMessageBytesMax = 64 * 1024;
// Messages up to this size go first between streams and are read together with their header.
constexpr size_t kSmallMessageBytesMax = 8 * 1024;
constexpr uint32_t kStandingMessages = 2;
// Refused above: a message is one slice of a plan, and plans are bounded far below.
constexpr size_t kMessageBytesMax = size_t{1} << 30;
// Streams that one connection may open; lazily made ones are bounded too.
constexpr size_t kStreamsPerLinkMax = size_t{1} << 20;

}  // namespace mccl
