// All connections of one endpoint: who connects, handshakes, and passing readiness on to links.
//
// Of two processes the one with the smaller process id connects; the other waits for it. Both know
// that they need each other, because both ends of a stream are named by the same program. A hello
// of fixed size is all that is read before the other side has shown the receiver's token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "mccl/wire.h"
#include "transport/link.h"

namespace mccl {

// What the store tells about a process.
struct PeerAddress {
  uint64_t process_id = 0;
  uint64_t token = 0;
  std::string address;  // for WireContext::connect
};

class Transport {
 public:
  // `wires` and `listener` outlive the transport. `process_id` is a random number, `token` another
  // one.
  Transport(WireContext& wires, uint64_t process_id, uint64_t token, LinkListener& listener);
  ~Transport();

  // The link to a process, made unconnected when first named; lives as long as the transport.
  Link& link(uint64_t process_id);

  // Sees to it that there is a connection: starts one when it is our turn, else expects one.
  Status connect(const PeerAddress& peer);

  // Handles readiness from WireContext::poll.
  void handle(const std::vector<WireEvent>& events, TimeNs now);

  // One read of each readable link; returns whether anything arrived.
  bool read();
  // One write of each link that has output; see Link::write. Returns whether bytes were written.
  bool write(bool is_idle);
  // Whether a link has output that somebody may be waiting for.
  bool has_due_output() const;

  // Connections that have not said a valid hello by their deadline are closed; the next deadline.
  TimeNs expire(TimeNs now);

  BufferPool& pool() { return pool_; }
  uint64_t process_id() const { return process_id_; }

  // Calls visit(link) for every link.
  template <typename Visitor>
  void visit_links(Visitor visit) {
    for (const std::unique_ptr<Link>& link : links_) visit(*link);
  }

 private:
  // An accepted connection that has not said who it is.
  struct Stranger {
    std::unique_ptr<Wire> wire;
    uint64_t token = 0;
    TimeNs deadline = 0;
    size_t bytes = 0;
    std::byte hello[sizeof(Hello)];
  };

  void accept_all(TimeNs now);
  // True when the stranger is done with: it became a link's wire or was turned away.
  bool greet(Stranger& stranger);
  bool admit(Stranger& stranger, const Hello& hello);

  WireContext& wires_;
  uint64_t process_id_;
  uint64_t token_;
  LinkListener& listener_;
  BufferPool pool_;  // before links_: their streams hold its buffers
  std::vector<std::unique_ptr<Link>> links_;
  std::unordered_map<uint64_t, Link*> link_of_process_;
  // A token is given once and never again: a late event of a closed connection finds nothing.
  std::unordered_map<uint64_t, Link*> link_of_token_;
  uint64_t next_token_ = 1;
  bool may_accept_ = false;  // connections may wait in accept()
  std::vector<std::unique_ptr<Stranger>> strangers_;
};

}  // namespace mccl
