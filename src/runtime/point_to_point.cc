#include "runtime/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/dtype.h"

namespace mccl {
namespace {

// Offers that may wait for a receive; more is a program that never receives.
constexpr size_t kUnexpectedMax = size_t{1} << 20;

std::string dtype_text(uint32_t dtype) {
  return dtype < all_data_types().size() ? std::string(dtype_name(static_cast<DataType>(dtype)))
                                         : "unknown type " + std::to_string(dtype);
}

MessageRecord record_of(const MessageSpec& spec, bool is_send) {
  MessageRecord record;
  record.bytes = spec.bytes();
  record.posted_at = spec.posted_at;
  record.state = CallState::WaitsForDevice;  // until it starts
  record.is_staged = spec.stand_in != nullptr;
  record.has_device = spec.device != nullptr;
  record.peer_process = spec.link == nullptr ? 0 : spec.link->peer_process();
  record.tag = spec.tag;
  record.dtype = spec.dtype;
  record.is_send = is_send;
  return record;
}

}  // namespace

// A long message under way, at either end: owner of its place in the stream, slice after slice.
class PointToPoint::Transfer : public Runnable {
 public:
  Transfer(PointToPoint& messages, MessageSpec spec)
      : messages_(messages), spec_(std::move(spec)), bytes_(spec_.bytes()) {}

  void wake() override { messages_.run_queue_.push(*this); }
  MessageSpec& spec() { return spec_; }
  size_t bytes_done() const { return done_; }
  virtual bool is_send() const = 0;

 protected:
  void end() {
    is_over_ = true;
    messages_.on_transfer_over(*this);
  }

  size_t next_bytes() const { return std::min(bytes_ - done_, messages_.slice_bytes_); }

  PointToPoint& messages_;
  MessageSpec spec_;
  size_t bytes_;
  size_t done_ = 0;
  bool is_over_ = false;
};

class PointToPoint::SendTransfer final : public Transfer {
 public:
  SendTransfer(PointToPoint& messages, MessageSpec spec, SendStream& stream, uint64_t transfer)
      : Transfer(messages, std::move(spec)), stream_(stream) {
    stream_.add_owner(this, transfer);
  }
  bool is_send() const override { return true; }

  uint64_t advance() override {
    uint64_t steps = 0;
    while (done_ < bytes_ && stream_.is_owned_by(this) && stream_.has_credit(next_bytes())) {
      const iovec piece{spec_.data + done_, next_bytes()};
      last_ = stream_.post({&piece, 1}, Fingerprint{}, PooledBuffer());
      done_ += piece.iov_len;
      ++steps;
      if (done_ == bytes_) stream_.pass_on();
    }
    if (done_ < bytes_ || is_over_) return steps;
    // The memory is the caller's again when its bytes have left it (law L3).
    if (stream_.is_captured(last_)) {
      end();
    } else {
      stream_.watch_capture(last_, this);
    }
    return steps;
  }

 private:
  SendStream& stream_;
  uint32_t last_ = 0;
};

class PointToPoint::ReceiveTransfer final : public Transfer {
 public:
  ReceiveTransfer(PointToPoint& messages, MessageSpec spec, RecvStream& stream, uint64_t transfer)
      : Transfer(messages, std::move(spec)), stream_(stream), transfer_(transfer) {
    stream_.add_owner(this, transfer, messages_.slice_count_,
                      std::min(bytes_, messages_.slice_bytes_));
  }
  bool is_send() const override { return false; }

  uint64_t advance() override {
    uint64_t steps = 0;
    while (done_ < bytes_ && stream_.is_owned_by(this)) {
      if (!stream_.has_message()) {
        if (!stream_.has_target() && next_bytes() > kSmallMessageBytesMax) {
          const iovec piece{spec_.data + done_, next_bytes()};
          stream_.post_target({&piece, 1}, next_bytes());
        }
        return steps;
      }
      const bool more_follow = done_ + next_bytes() < bytes_;
      const InMessage message = stream_.take(more_follow);
      if (message.sequence != transfer_ || message.bytes != next_bytes()) {
        messages_.fail_(Status(StatusCode::Internal,
                               stream_.peer_name() + " sent another slice of a message than was "
                                                     "agreed; it runs another version"));
        return steps;
      }
      if (!message.is_in_target)
        std::memcpy(spec_.data + done_, message.buffer.data(), message.bytes);
      done_ += message.bytes;
      ++steps;
      if (done_ < bytes_) continue;
      stream_.pass_on();
      end();
    }
    return steps;
  }

 private:
  RecvStream& stream_;
  uint64_t transfer_;
};

PointToPoint::PointToPoint(uint64_t communicator, RunQueue& run_queue, BufferPool& pool,
                           FlightRecorder& recorder, std::function<void(const Status&)> fail)
    : communicator_(communicator),
      run_queue_(run_queue),
      pool_(pool),
      recorder_(recorder),
      fail_(std::move(fail)) {}

PointToPoint::~PointToPoint() {
  for (const std::unique_ptr<Transfer>& transfer : transfers_) run_queue_.remove(*transfer);
}

void PointToPoint::sweep() {
  over_.clear();
}

void PointToPoint::post(bool is_send, MessageSpec spec) {
  note_deadline(spec);
  spec.number = recorder_.post_message(record_of(spec, is_send));
  if (deferred_.empty() && (spec.device == nullptr || spec.device->is_produced()))
    return start(is_send, std::move(spec));
  deferred_.push_back({is_send, std::move(spec)});
  start_produced();
}

void PointToPoint::start(bool is_send, MessageSpec spec) {
  recorder_.set_message_state(spec.number, CallState::WaitsForPeer);
  if (is_send)
    start_send(std::move(spec));
  else
    start_receive(std::move(spec));
}

void PointToPoint::start_produced() {
  // Whose way is barred: a send's (peer, tag), a receive's (null, tag).
  std::set<std::pair<const Link*, int64_t>> barred_sends;
  std::set<int64_t> barred_receives;
  for (auto next = deferred_.begin(); next != deferred_.end();) {
    const MessageSpec& spec = next->spec;
    const bool is_barred = next->is_send ? barred_sends.contains({spec.link, spec.tag})
                                         : barred_receives.contains(spec.tag);
    if (is_barred || (spec.device != nullptr && !spec.device->is_produced())) {
      if (next->is_send)
        barred_sends.insert({spec.link, spec.tag});
      else
        barred_receives.insert(spec.tag);
      ++next;
      continue;
    }
    Deferred started = std::move(*next);
    next = deferred_.erase(next);
    start(started.is_send, std::move(started.spec));
  }
}

void PointToPoint::start_send(MessageSpec spec) {
  if (spec.stand_in != nullptr && spec.stand_in->copy_in) {
    const Status copied = spec.stand_in->copy_in();
    if (!copied.is_ok()) {
      fail_(copied);
      sends_.push_back({spec.link, 0, std::move(spec)});  // ends with the communicator
      return;
    }
  }
  Link& link = *spec.link;
  Peer& peer = peers_[&link];
  const uint64_t offer = peer.next_offer++;
  const size_t bytes = spec.bytes();
  OfferEntry entry{.tag = spec.tag, .bytes = bytes, .dtype = static_cast<uint32_t>(spec.dtype)};
  // Without a wire the message is not on its way, and the sender may end before it is.
  const bool is_eager = bytes <= kEagerBytesMax &&
                        peer.eager_bytes_out + bytes <= kEagerBudgetBytes && link.is_opening();
  if (is_eager) {
    entry.is_eager = 1;
    peer.eager_bytes_out += bytes;
    if (bytes > 0) peer.eager_sizes.emplace(offer, bytes);
    link.send_offer(communicator_, offer, entry, {spec.data, bytes});
    complete(spec, true);
    return;
  }
  link.send_offer(communicator_, offer, entry, {});
  sends_.push_back({&link, offer, std::move(spec)});
}

bool PointToPoint::fits(const MessageSpec& receive, const Link& link, int64_t tag) {
  return (receive.link == nullptr || receive.link == &link) && receive.tag == tag;
}

void PointToPoint::start_receive(MessageSpec spec) {
  const auto found = std::find_if(
      unexpected_.begin(), unexpected_.end(),
      [&](const Unexpected& offered) { return fits(spec, *offered.link, offered.entry.tag); });
  if (found == unexpected_.end()) {
    receives_.push_back(std::move(spec));
    return;
  }
  const Unexpected offered = std::move(*found);
  unexpected_.erase(found);
  if (offered.entry.is_eager != 0) peers_[offered.link].eager_bytes_in -= offered.entry.bytes;
  match(std::move(spec), *offered.link, offered.offer, offered.entry,
        {offered.message.data(), offered.entry.is_eager != 0 ? offered.entry.bytes : 0});
}

void PointToPoint::on_offer(Link& link, uint64_t offer, const OfferEntry& entry,
                            std::span<const std::byte> message) {
  const auto found =
      std::find_if(receives_.begin(), receives_.end(),
                   [&](const MessageSpec& receive) { return fits(receive, link, entry.tag); });
  if (found != receives_.end()) {
    MessageSpec receive = std::move(*found);
    receives_.erase(found);
    match(std::move(receive), link, offer, entry, message);
    return;
  }
  Peer& peer = peers_[&link];
  if (peer.eager_bytes_in + message.size() > kEagerBudgetBytes)
    return link.refuse("more short messages than may wait for a receive");
  if (unexpected_.size() >= kUnexpectedMax)
    return fail_(Status(StatusCode::Mismatch, std::to_string(kUnexpectedMax) +
                                                  " messages wait for a receive here, the " +
                                                  "last one from " + link.peer_name() +
                                                  " with tag " + std::to_string(entry.tag)));
  Unexpected& kept = unexpected_.emplace_back(Unexpected{&link, offer, entry, PooledBuffer()});
  if (message.empty()) return;
  peer.eager_bytes_in += message.size();
  kept.message = pool_.take(message.size());
  std::memcpy(kept.message.data(), message.data(), message.size());
}

// A receive that does not fit its message ends the communicator at both ends with the same words.
bool PointToPoint::agrees(const MessageSpec& receive, const Link& link, const OfferEntry& entry) {
  if (entry.bytes == receive.bytes() && entry.dtype == static_cast<uint32_t>(receive.dtype))
    return true;
  const size_t element_bytes =
      entry.dtype < all_data_types().size() ? dtype_bytes(static_cast<DataType>(entry.dtype)) : 1;
  fail_(Status(StatusCode::Mismatch,
               "a message with tag " + std::to_string(receive.tag) + " from " + link.peer_name() +
                   " has " + std::to_string(entry.bytes / element_bytes) + " elements of " +
                   dtype_text(entry.dtype) + " (" + std::to_string(entry.bytes) +
                   " bytes), its receive has " + std::to_string(receive.count) + " of " +
                   std::string(dtype_name(receive.dtype)) + " (" + std::to_string(receive.bytes()) +
                   " bytes); both ends must name the same type and count"));
  return false;
}

void PointToPoint::match(MessageSpec receive, Link& link, uint64_t offer, const OfferEntry& entry,
                         std::span<const std::byte> message) {
  if (!agrees(receive, link, entry)) {
    receives_.push_front(std::move(receive));  // ends with the communicator, like everything else
    return;
  }
  recorder_.start_message(receive.number, link.peer_process());
  if (receive.sink != nullptr) receive.sink->on_source(link.peer_process());
  receive.link = &link;
  if (entry.is_eager != 0) {
    if (!message.empty()) {
      std::memcpy(receive.data, message.data(), message.size());
      link.send_match(communicator_, offer, {});
    }
    complete(receive, false);
    return;
  }
  if (entry.bytes == 0) {  // nothing to transfer, but a sender that waits
    link.send_match(communicator_, offer, {});
    complete(receive, false);
    return;
  }
  const uint64_t transfer = peers_[&link].next_transfer++;
  link.send_match(communicator_, offer, {transfer});
  transfers_.push_back(std::make_unique<ReceiveTransfer>(
      *this, std::move(receive), link.recv_stream(communicator_, kPointToPointChannel), transfer));
  transfers_.back()->wake();
}

void PointToPoint::on_match(Link& link, uint64_t offer, const MatchEntry& entry) {
  Peer& peer = peers_[&link];
  const auto eager = peer.eager_sizes.find(offer);
  if (eager != peer.eager_sizes.end()) {
    peer.eager_bytes_out -= eager->second;
    peer.eager_sizes.erase(eager);
    return;
  }
  const auto found = std::find_if(sends_.begin(), sends_.end(), [&](const Offered& offered) {
    return offered.link == &link && offered.offer == offer;
  });
  if (found == sends_.end()) return link.refuse("an answer to an offer that was not made");
  MessageSpec spec = std::move(found->spec);
  sends_.erase(found);
  recorder_.start_message(spec.number, link.peer_process());
  if (spec.bytes() == 0) return complete(spec, true);
  transfers_.push_back(std::make_unique<SendTransfer>(
      *this, std::move(spec), link.send_stream(communicator_, kPointToPointChannel),
      entry.transfer));
  transfers_.back()->wake();
}

void PointToPoint::complete(MessageSpec& spec, bool is_send) {
  ++completed_count_;
  recorder_.end_message(spec.number, CallState::Complete);
  Status status;
  if (!is_send && spec.stand_in != nullptr && spec.stand_in->copy_out)
    status = spec.stand_in->copy_out();
  if (!status.is_ok()) fail_(status);
  if (spec.sink != nullptr) spec.sink->on_complete(status);
}

void PointToPoint::on_transfer_over(Transfer& transfer) {
  const auto found =
      std::find_if(transfers_.begin(), transfers_.end(),
                   [&](const std::unique_ptr<Transfer>& one) { return one.get() == &transfer; });
  MCCL_CHECK(found != transfers_.end());
  over_.push_back(std::move(*found));
  transfers_.erase(found);
  complete(transfer.spec(), transfer.is_send());
}

void PointToPoint::settle(const Status& failure) {
  std::vector<std::shared_ptr<MessageSink>> sinks;
  const auto end = [&](MessageSpec& spec) {
    recorder_.end_message(spec.number, CallState::Failed);
    sinks.push_back(std::move(spec.sink));
  };
  for (Deferred& one : deferred_) end(one.spec);
  for (Offered& offered : sends_) end(offered.spec);
  for (MessageSpec& receive : receives_) end(receive);
  for (const std::unique_ptr<Transfer>& transfer : transfers_) {
    run_queue_.remove(*transfer);
    end(transfer->spec());
  }
  deferred_.clear();
  sends_.clear();
  receives_.clear();
  unexpected_.clear();
  transfers_.clear();
  for (const std::shared_ptr<MessageSink>& sink : sinks)
    if (sink != nullptr) sink->on_complete(failure);
}

std::string PointToPoint::describe(const MessageSpec& spec, bool is_send) const {
  const std::string peer = spec.link == nullptr ? "any rank" : spec.link->peer_name();
  return std::string(is_send ? "send of " : "receive of ") + std::to_string(spec.count) + " " +
         std::string(dtype_name(spec.dtype)) + " with tag " + std::to_string(spec.tag) +
         (is_send ? " to " : " from ") + peer;
}

std::string PointToPoint::describe_offers(const MessageSpec& receive) const {
  std::string tags;
  size_t count = 0;
  for (const Unexpected& offered : unexpected_) {
    if (receive.link != nullptr && receive.link != offered.link) continue;
    if (++count <= 4) tags += (tags.empty() ? "" : ", ") + std::to_string(offered.entry.tag);
  }
  if (count == 0) return "it has sent nothing that waits here";
  return std::to_string(count) + " messages with other tags wait here (" + tags +
         (count > 4 ? ", ...)" : ")");
}

TimeNs PointToPoint::expire(TimeNs now) {
  if (now < next_deadline_) return next_deadline_;
  next_deadline_ = kNever;
  const auto is_overdue = [&](const MessageSpec& spec) {
    note_deadline(spec.deadline <= now ? MessageSpec{} : spec);
    return spec.deadline <= now;
  };
  const auto fail = [&](const MessageSpec& spec, bool is_send, const std::string& state) {
    fail_(Status(StatusCode::Timeout, describe(spec, is_send) + " Timed out: " + state));
  };
  for (const Deferred& one : deferred_)
    if (is_overdue(one.spec))
      fail(one.spec, one.is_send,
           "the kernels of this rank's device that write its memory have "
           "not finished");
  for (const Offered& offered : sends_)
    if (is_overdue(offered.spec))
      fail(offered.spec, true, "the receiver has posted no receive for it");
  for (const MessageSpec& receive : receives_)
    if (is_overdue(receive)) fail(receive, false, describe_offers(receive));
  for (const std::unique_ptr<Transfer>& transfer : transfers_)
    if (is_overdue(transfer->spec()))
      fail(transfer->spec(), transfer->is_send(),
           std::to_string(transfer->bytes_done()) + " bytes have moved");
  return next_deadline_;
}

const MessageSpec* PointToPoint::oldest() const {
  const MessageSpec* oldest = nullptr;
  const auto look_at = [&oldest](const MessageSpec& spec) {
    if (oldest == nullptr || spec.posted_at < oldest->posted_at) oldest = &spec;
  };
  for (const Offered& offered : sends_) look_at(offered.spec);
  for (const MessageSpec& receive : receives_) look_at(receive);
  for (const std::unique_ptr<Transfer>& transfer : transfers_) look_at(transfer->spec());
  return oldest;
}

bool PointToPoint::needs_link(const Link& link) const {
  const auto is_with = [&link](const MessageSpec& spec) { return spec.link == &link; };
  return std::any_of(deferred_.begin(), deferred_.end(),
                     [&](const Deferred& one) { return is_with(one.spec); }) ||
         std::any_of(sends_.begin(), sends_.end(),
                     [&](const Offered& offered) { return is_with(offered.spec); }) ||
         std::any_of(receives_.begin(), receives_.end(), is_with) ||
         std::any_of(transfers_.begin(), transfers_.end(),
                     [&](const std::unique_ptr<Transfer>& one) { return is_with(one->spec()); });
}

}  // namespace mccl
