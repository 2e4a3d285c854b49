// All connections of one endpoint: their links, and passing readiness on to them. How a connection
// comes about is in gate.h.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "mccl/wire.h"
#include "transport/gate.h"
#include "transport/link.h"

namespace mccl {

// Who begins a connection.
enum class Initiative : uint8_t {
  SmallerId,  // the process with the smaller id; the other one waits for it
  Ours,       // this process, whatever the ids; the other one may do the same
};

class Transport final : private GateOwner {
 public:
  // `wires` and `listener` outlive the transport. `notice` hears of strangers; see Refusals.
  Transport(WireContext& wires, Identity identity, LinkListener& listener,
            Refusals::Notice notice = {});
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // The link to a process, made unconnected when first named; lives as long as the transport.
  Link& link(uint64_t process_id);

  // Sees to it that there is a connection: starts one when it is our turn, else expects one. Both
  // ends may call it, with any initiative, in any order: there is one connection in the end. What
  // is queued on the link waits for it. An error is the address's or this host's; a connection that
  // fails later fails the link.
  Status connect(const PeerAddress& peer, Initiative initiative = Initiative::SmallerId);

  // The next link() to this process is a new one. The lost one stays for whoever refers to it.
  void forget(uint64_t process_id) { link_of_process_.erase(process_id); }
  bool is_forgotten(const Link& link) const {
    const auto found = link_of_process_.find(link.peer_process());
    return found == link_of_process_.end() || found->second != &link;
  }

  // Handles readiness from WireContext::poll.
  void handle(const std::vector<WireEvent>& events, TimeNs now);

  // One read of each readable link; returns whether anything arrived.
  bool read();
  // One write of each link that has output; see Link::write. Returns whether bytes were written.
  bool write(bool is_idle);
  // Whether a link has output that somebody may be waiting for.
  bool has_due_output() const;

  // Connections that have not completed the handshake by their deadline are closed; the next
  // deadline. While something `is_awaited`, and half a minute longer, it also asks once a second
  // whether the hosts of peers are there; later the kernel does, and wakes who listens.
  TimeNs expire(TimeNs now, bool is_awaited);

  BufferPool& pool() { return pool_; }
  uint64_t process_id() const { return process_id_; }
  const Refusals& refusals() const { return gate_.refusals(); }

  // Calls visit(link) for every link.
  template <typename Visitor>
  void visit_links(Visitor visit) {
    for (const std::unique_ptr<Link>& link : links_) visit(*link);
  }

 private:
  bool wants(uint64_t process_id) const override;
  void admit(uint64_t process_id, std::unique_ptr<Wire> wire, uint64_t token) override;
  void lose(uint64_t process_id, const Status& status) override;

  uint64_t process_id_;
  LinkListener& listener_;
  BufferPool pool_;  // before links_: their streams hold its buffers
  LinkWork work_;
  std::vector<std::unique_ptr<Link>> links_;
  std::unordered_map<uint64_t, Link*> link_of_process_;
  std::unordered_map<uint64_t, Link*> link_of_token_;  // tokens are the gate's
  Gate gate_;
  TimeNs check_peers_at_ = 0;
  TimeNs check_peers_until_ = 0;
};

}  // namespace mccl
