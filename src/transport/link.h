// One connection to a peer process, shared by all streams of all communicators with it.
//
// Writing: frames of small messages go before frames of large ones, never within a stream; credits
// and grants go before both. Reading never stops for lack of credit or because our own write would
// block (law L2): what nobody waits for yet is parked.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "mccl/status.h"
#include "mccl/wire.h"
#include "transport/index_set.h"
#include "transport/stream.h"

namespace mccl {

// What the owner of links hears. Calls come from the engine, inside functions of Link and
// Transport; they must not destroy the link.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  // The first bytes of a message: compare its fingerprint (law L9).
  virtual void on_message_head(Link& link, const FrameHeader& head) = 0;
  // The peer left `communicator`, with its reason.
  virtual void on_leave(Link& link, uint64_t communicator, const Status& reason) = 0;
  // Point to point; who does none leaves them out. `message` is there when the offer is eager and
  // is gone after the call.
  virtual void on_offer(Link& /*link*/, uint64_t /*communicator*/, uint64_t /*offer*/,
                        const OfferEntry& /*entry*/, std::span<const std::byte> /*message*/) {}
  virtual void on_match(Link& /*link*/, uint64_t /*communicator*/, uint64_t /*offer*/,
                        const MatchEntry& /*entry*/) {}
  // The peer waits in operation `head.sequence`; answers go by Link::send_report.
  virtual void on_probe(Link& /*link*/, const FrameHeader& /*head*/) {}
  virtual void on_report(Link& /*link*/, uint64_t /*communicator*/, uint64_t /*sequence*/,
                         std::span<const std::byte> /*report*/) {}
  // The connection is gone; nothing more will be read or written.
  virtual void on_link_failed(Link& link, const Status& status) = 0;
};

// Which links of an endpoint may have something to do, by their index: kept by the links, so that
// nobody has to ask all of them. A link in a set may turn out to have nothing.
struct LinkWork {
  IndexSet readable;
  IndexSet output;
};

class Link {
 public:
  // `pool`, `listener` and `work` outlive the link.
  Link(uint64_t peer_process, LinkListener& listener, BufferPool& pool, LinkWork& work,
       size_t index);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  uint64_t peer_process() const { return peer_process_; }
  // For messages: "rank 3 (host7)"; set by comm when it knows.
  const std::string& peer_name() const { return peer_name_; }
  void set_peer_name(std::string name) { peer_name_ = std::move(name); }

  // Gives the link its wire, both sides of which have shown who they are.
  void attach(std::unique_ptr<Wire> wire);
  bool has_wire() const { return wire_ != nullptr; }
  // There is a wire, or this process makes one: what is queued now leaves without the peer's help.
  bool is_opening() const { return wire_ != nullptr || is_opening_; }
  void set_opening() {
    is_opening_ = true;
    note_output();
  }
  bool is_failed() const { return !failure_.is_ok(); }
  const Status& failure() const { return failure_; }

  // Made when first named. References stay valid until end_communicator().
  SendStream& send_stream(uint64_t communicator, uint32_t channel);
  RecvStream& recv_stream(uint64_t communicator, uint32_t channel);

  // Readiness as the wire reported it.
  void set_readable() {
    is_readable_ = true;
    work_.readable.insert(index_);
  }
  void set_writable() { is_write_blocked_ = false; }
  bool is_readable() const { return is_readable_ && !is_failed() && has_wire(); }

  // Wire::check_peer: false when the peer's host is lost, which the next read() then reports.
  bool check_peer(TimeNs now);

  // Reads until nothing is there or a message that is not small is complete (it is reduced while
  // hot in cache). Returns whether anything arrived.
  bool read();

  // Writes what is queued until the wire would block. Credits for small messages alone are held
  // back unless `is_idle`: they usually ride on the next data frame. Returns whether bytes were
  // written.
  bool write(bool is_idle);
  // Whether something is to be written, now or when the wire has room.
  bool has_output() const;
  // Output that somebody may be waiting for: all but credits that wait for company. What waits for
  // the wire that this process makes is under way as much as what waits in a socket.
  bool has_due_output() const;

  // Tells the peer that we left a communicator; queued behind data already framed, and until there
  // is a wire.
  void send_leave(uint64_t communicator, const Status& reason);

  // Offers and matches go in the order of these calls, before a leave; they may wait for the wire.
  // `message` is copied.
  void send_offer(uint64_t communicator, uint64_t offer, const OfferEntry& entry,
                  std::span<const std::byte> message);
  void send_match(uint64_t communicator, uint64_t offer, const MatchEntry& entry);
  void send_announcement(uint64_t communicator, uint64_t sequence, const Fingerprint& fingerprint);
  // Whoever has waited long asks the peer what it does; the peer answers, also with later news.
  // A report is copied and has at most kReportBytesMax bytes.
  void send_probe(uint64_t communicator, uint64_t sequence, const Fingerprint& fingerprint);
  void send_report(uint64_t communicator, uint64_t sequence, std::span<const std::byte> report);
  // A peer broke the rules of a frame that was well formed: ends the link.
  void refuse(const std::string& text);

  // Drops every stream of the communicator. Bytes of frames under way are copied first, so that
  // user memory is free when this returns. Later frames for it are skipped.
  void end_communicator(uint64_t communicator);

  // Calls visit(head) for each message that arrived, or began to, before its communicator existed
  // here.
  template <typename Visitor>
  void visit_parked(uint64_t communicator, Visitor visit) const {
    for (const auto& [key, stream] : recv_streams_) {
      // Both ends of a point-to-point message agree on it before its first byte.
      if (key.communicator != communicator || key.channel == kPointToPointChannel) continue;
      for (const InMessage& message : stream->parked_) visit(message);
      if (stream->is_arriving_) visit(stream->arriving_);
    }
  }

  // Counters since the link was made.
  uint64_t bytes_written() const { return bytes_written_; }
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t write_calls() const { return write_calls_; }
  uint64_t read_calls() const { return read_calls_; }

  void close();
  // Ends the link: it is closed and the listener hears of it, once.
  void fail(const Status& status);

 private:
  friend class SendStream;
  friend class RecvStream;

  struct Key {
    uint64_t communicator;
    uint32_t channel;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return static_cast<size_t>((key.communicator ^ key.channel) * 0x9e3779b97f4a7c15ULL);
    }
  };
  // A frame under way. Slots are reused, so that vectors keep their capacity.
  struct OutFrame {
    FrameHeader header;
    std::vector<iovec> pieces;  // header first; consumed from `first`
    size_t first = 0;
    std::vector<std::byte> storage;
    SendStream* stream = nullptr;
    bool ends_message = false;
  };

  void make_ready(SendStream& stream);
  void add_credit(RecvStream& stream, bool is_urgent);
  void add_grant(const GrantEntry& entry) {
    grants_.push_back(entry);
    note_output();
  }
  void note_output() { work_.output.insert(index_); }

  OutFrame& next_frame();
  void add_control_frame(FrameKind kind, const void* payload, size_t bytes);
  void add_control(FrameKind kind, uint64_t communicator, uint64_t sequence, const void* entry,
                   size_t bytes, std::span<const std::byte> message);
  void fill_controls();
  void fill_leaves();
  void fill(bool is_idle);
  void frame_message(SendStream& stream);
  void consume_written(size_t bytes);

  bool parse();
  Status begin_frame(const FrameHeader& header);
  Status begin_data(const FrameHeader& header);
  void finish_payload();
  void finish_message(RecvStream& stream);
  Status finish_control();
  Status finish_credits();
  Status finish_grants();
  Status finish_leave();
  Status finish_offer();
  Status finish_match();
  Status finish_announcement();
  Status finish_probe();
  Status finish_report();
  size_t payload_pieces(std::vector<iovec>& pieces);

  uint64_t peer_process_;
  std::string peer_name_;
  LinkListener& listener_;
  BufferPool& pool_;
  LinkWork& work_;
  size_t index_;
  std::unique_ptr<Wire> wire_;
  bool is_opening_ = false;
  Status failure_;
  std::unordered_map<Key, std::unique_ptr<SendStream>, KeyHash> send_streams_;
  std::unordered_map<Key, std::unique_ptr<RecvStream>, KeyHash> recv_streams_;
  // Ended here, while the peer may still send frames of it; and left by the peer, whose last frame
  // of it that was, before it ended here. Each is forgotten when both have happened.
  std::unordered_set<uint64_t> ended_communicators_;
  std::unordered_set<uint64_t> left_communicators_;

  // Writing.
  bool is_write_blocked_ = false;
  Status write_failure_;  // reported when all that had arrived is read
  std::deque<SendStream*> ready_small_;
  std::deque<SendStream*> ready_large_;
  std::vector<RecvStream*> credits_;
  bool has_urgent_credit_ = false;
  std::vector<GrantEntry> grants_;
  std::vector<CreditEntry> credit_entries_;
  struct Leave {
    uint64_t communicator;
    Status reason;
  };
  std::vector<Leave> leaves_;
  struct Control {
    FrameKind kind;
    uint64_t communicator;
    uint64_t sequence;
    std::vector<std::byte> payload;
  };
  std::deque<Control> controls_;                   // offers and matches
  std::vector<std::unique_ptr<OutFrame>> frames_;  // ring of slots
  size_t frame_head_ = 0;
  size_t frame_count_ = 0;
  size_t frame_bytes_ = 0;  // not yet written
  std::vector<iovec> write_pieces_;

  // Reading.
  bool is_readable_ = false;
  std::vector<std::byte> input_;
  size_t input_begin_ = 0;
  size_t input_end_ = 0;
  FrameHeader header_;
  size_t payload_left_ = 0;
  bool is_in_payload_ = false;
  RecvStream* current_ = nullptr;  // null: control payload, or skipped
  bool is_skipping_ = false;
  std::vector<std::byte> control_;
  bool has_large_message_ = false;
  std::vector<iovec> read_pieces_;

  uint64_t bytes_written_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t write_calls_ = 0;
  uint64_t read_calls_ = 0;
};

}  // namespace mccl
