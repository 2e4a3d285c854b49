#include "memory_wire.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace mccl {
namespace {

// The bytes of one direction.
class ByteRing {
 public:
  explicit ByteRing(size_t capacity) : bytes_(capacity) {}

  size_t write(std::span<const iovec> pieces) {
    size_t total = 0;
    for (const iovec& piece : pieces) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      const size_t length = std::min(piece.iov_len, bytes_.size() - used_);
      const size_t end = (begin_ + used_) % bytes_.size();
      const size_t first = std::min(length, bytes_.size() - end);
      std::memcpy(bytes_.data() + end, data, first);
      std::memcpy(bytes_.data(), data + first, length - first);
      used_ += length;
      total += length;
      if (length < piece.iov_len) break;
    }
    return total;
  }

  size_t read(std::span<const iovec> pieces) {
    size_t total = 0;
    for (const iovec& piece : pieces) {
      auto* data = static_cast<std::byte*>(piece.iov_base);
      const size_t length = std::min(piece.iov_len, used_);
      const size_t first = std::min(length, bytes_.size() - begin_);
      std::memcpy(data, bytes_.data() + begin_, first);
      std::memcpy(data + first, bytes_.data(), length - first);
      begin_ = (begin_ + length) % bytes_.size();
      used_ -= length;
      total += length;
      if (used_ == 0) break;
    }
    return total;
  }

 private:
  std::vector<std::byte> bytes_;
  size_t begin_ = 0;
  size_t used_ = 0;
};

// One end of a connection; its events go to the context that owns it.
struct End {
  End(size_t queue_bytes, MemoryContext* context_, uint64_t token_)
      : incoming(queue_bytes), context(context_), token(token_) {}
  ByteRing incoming;
  MemoryContext* context;
  uint64_t token;
  std::weak_ptr<End> peer;
  bool wants_room = false;  // a write was short
  bool is_closed = false;
};

}  // namespace

class MemoryContext final : public WireContext {
 public:
  MemoryContext(MemoryNetwork& network, size_t number) : network_(network), number_(number) {}

  std::string address() const override { return "memory://" + std::to_string(number_); }

  Result<std::unique_ptr<Wire>> connect(const std::string& address, uint64_t token) override;
  std::unique_ptr<Wire> accept(uint64_t token) override;

  void poll(int64_t, std::vector<WireEvent>& events) override {
    events.insert(events.end(), events_.begin(), events_.end());
    events_.clear();
  }
  void wake() override {}

  void add_event(const WireEvent& event) { events_.push_back(event); }

 private:
  MemoryNetwork& network_;
  size_t number_;
  std::vector<WireEvent> events_;
  std::deque<std::shared_ptr<End>> waiting_;
};

namespace {

class MemoryWire final : public Wire {
 public:
  explicit MemoryWire(std::shared_ptr<End> end) : end_(std::move(end)) {}
  ~MemoryWire() override { close(); }
  MemoryWire(const MemoryWire&) = delete;
  MemoryWire& operator=(const MemoryWire&) = delete;

  Result<size_t> write(std::span<const iovec> pieces) override {
    const std::shared_ptr<End> peer = end_->peer.lock();
    if (peer == nullptr || peer->is_closed || end_->is_closed) return lost();
    size_t wanted = 0;
    for (const iovec& piece : pieces) wanted += piece.iov_len;
    const size_t written = peer->incoming.write(pieces);
    end_->wants_room = written < wanted;
    if (written > 0) peer->context->add_event({.token = peer->token, .readable = true});
    return written;
  }

  Result<size_t> read(std::span<const iovec> pieces) override {
    const size_t got = end_->incoming.read(pieces);
    const std::shared_ptr<End> peer = end_->peer.lock();
    if (got == 0 && (peer == nullptr || peer->is_closed)) return lost();
    if (got > 0 && peer != nullptr && peer->wants_room) {
      peer->wants_room = false;
      peer->context->add_event({.token = peer->token, .writable = true});
    }
    return got;
  }

  void close() override {
    if (end_->is_closed) return;
    end_->is_closed = true;
    const std::shared_ptr<End> peer = end_->peer.lock();
    if (peer != nullptr && !peer->is_closed)
      peer->context->add_event({.token = peer->token, .readable = true, .writable = true});
  }

  std::string describe() const override { return "memory"; }

 private:
  static Status lost() { return Status(StatusCode::PeerLost, "the other end is closed"); }

  std::shared_ptr<End> end_;
};

}  // namespace

Result<std::unique_ptr<Wire>> MemoryContext::connect(const std::string& address, uint64_t token) {
  const size_t number = std::stoul(address.substr(address.rfind('/') + 1));
  MCCL_CHECK_LT(number, network_.contexts_.size());
  MemoryContext* other = network_.contexts_[number];
  auto here = std::make_shared<End>(network_.queue_bytes_, this, token);
  auto there = std::make_shared<End>(network_.queue_bytes_, other, 0);
  here->peer = there;
  there->peer = here;
  other->waiting_.push_back(there);
  other->add_event({.acceptable = true});
  add_event({.token = token, .writable = true});
  return std::unique_ptr<Wire>(std::make_unique<MemoryWire>(std::move(here)));
}

std::unique_ptr<Wire> MemoryContext::accept(uint64_t token) {
  if (waiting_.empty()) return nullptr;
  std::shared_ptr<End> end = std::move(waiting_.front());
  waiting_.pop_front();
  end->token = token;
  return std::make_unique<MemoryWire>(std::move(end));
}

std::unique_ptr<WireContext> MemoryNetwork::make_context() {
  auto context = std::make_unique<MemoryContext>(*this, contexts_.size());
  contexts_.push_back(context.get());
  return context;
}

}  // namespace mccl
