// How a communicator comes about: its ranks meet, agree, and are connected to each other.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "comm/communicator_core.h"
#include "comm/rendezvous_host.h"
#include "transport/handshake.h"

namespace mccl {
namespace {

// Enough to tell two secrets apart. Who reads the store can try guesses on it, as who sees a
// handshake can.
std::string check_of(const std::string& secret, const std::string& meeting) {
  if (secret.empty()) return {};
  const Mac mac = Authenticator().authenticate(secret, "mccl meeting " + meeting);
  std::string check;
  for (size_t index = 0; index < 4; ++index)
    check += fmt::format("{:02x}", std::to_integer<unsigned>(mac[index]));
  return check;
}

// Of a rank that has no endpoint and only says so.
class NoHost final : public BootstrapHost {
 public:
  void connect(const PeerAddress&) override {}
  bool is_connected(uint64_t) override { return false; }
  std::map<uint64_t, Status> lost_processes() override { return {}; }
  Status failure() override { return Status::ok(); }
  void leave(uint64_t, const Status&) override {}
  void notice(const std::string&) override {}
};

}  // namespace

void Communicator::decline(Store& store, int rank, int rank_count, const Status& reason,
                           const CommunicatorOptions& options) {
  const SystemClock clock;
  NoHost host;
  RankRecord record;
  record.host_name = host_name();
  record.pid = getpid();
  const TimeNs timeout_ns = options.timeout_ns < 0 ? Config{}.timeout_ns : options.timeout_ns;
  Bootstrap bootstrap(store, clock, host,
                      {.name = options.name,
                       .title = options.title.empty() ? "group " + options.name : options.title,
                       .rank = rank,
                       .rank_count = rank_count,
                       .timeout_ns = timeout_ns,
                       .interrupted = options.interrupted});
  // Any number that nobody else has.
  const uint64_t meeting = static_cast<uint64_t>(clock.now()) * uint64_t{0x9e3779b97f4a7c15} +
                           static_cast<uint64_t>(getpid());
  bootstrap.decline(record, meeting, reason);
}

Result<CommunicatorCore::Rendezvous> CommunicatorCore::publish(EndpointCore& endpoint, Store& store,
                                                               int rank, int rank_count,
                                                               const CommunicatorOptions& options) {
  if (rank_count < 1 || rank < 0 || rank >= rank_count)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("rank {} of {} ranks: a rank is at least 0 and below the number of "
                              "ranks",
                              rank, rank_count));
  if (!endpoint.is_own_process())
    return Status(
        StatusCode::InvalidArgument,
        "this process was forked from the one that made the endpoint; make an endpoint of "
        "its own after the fork");
  const int64_t timeout_ns =
      options.timeout_ns < 0 ? endpoint.config().timeout_ns : options.timeout_ns;
  const std::string title = options.title.empty() ? "group " + options.name : options.title;
  // Any number that nobody else has: process ids are random, and the clock moves between two
  // communicators of one process.
  const uint64_t meeting = endpoint.record().peer.process_id * 0x9e3779b97f4a7c15ULL +
                           static_cast<uint64_t>(endpoint.engine().clock().now()) +
                           endpoint.take_communicator_number();
  auto host = std::make_unique<RendezvousHost>(endpoint);
  Bootstrap bootstrap(
      store, endpoint.engine().clock(), *host,
      {.name = options.name,
       .title = title,
       .rank = rank,
       .rank_count = rank_count,
       .timeout_ns = timeout_ns,
       .interrupted = options.interrupted,
       .check_secret = [secret = endpoint.config().secret](
                           const std::string& number) { return check_of(secret, number); },
       .algorithms = endpoint.library().algorithms()});
  Rendezvous rendezvous{&endpoint,
                        std::move(host),
                        std::move(bootstrap),
                        rank,
                        title,
                        deadline_after(endpoint.engine().clock().now(), timeout_ns),
                        options.interrupted};
  RankRecord record = endpoint.record();
  // Told to all, like every other difference, instead of leaving them without this rank.
  record.program_fault = endpoint.prove_programs(rank_count).message();
  MCCL_RETURN_IF_ERROR(rendezvous.bootstrap.publish(record, meeting));
  return rendezvous;
}

Result<std::unique_ptr<CommunicatorCore>> CommunicatorCore::finish(Rendezvous& rendezvous) {
  EndpointCore& endpoint = *rendezvous.endpoint;
  Result<Agreement> agreement = rendezvous.bootstrap.finish(
      [&](const std::vector<RankRecord>& ranks) { return decide(endpoint, ranks); });
  if (!agreement.is_ok()) return agreement.status();
  std::unique_ptr<CommunicatorCore> core(new CommunicatorCore(
      endpoint, rendezvous.rank, std::move(rendezvous.title), std::move(agreement).value()));
  core->open();
  const Status connected = core->await_control_tree(rendezvous);
  if (connected.is_ok()) return core;
  // The others have agreed and may be about to call: they are told why this rank does not come.
  endpoint.driver().with_engine([&] { core->group_->queue.fail(connected); }, false);
  return connected;
}

Status CommunicatorCore::await_control_tree(const Rendezvous& rendezvous) {
  constexpr TimeNs kLookNs = kNsPerMs;
  // The group may fail meanwhile. Its first call says so; neighbours that are under way are still
  // to hear of it.
  constexpr TimeNs kFailedWaitNs = 2 * kNsPerSecond;
  // A child that has not come by then may be gone: only a connection to it can tell.
  constexpr TimeNs kSeekNs = 300 * kNsPerMs;
  const TimeNs seek_at = deadline_after(endpoint_.engine().clock().now(), kSeekNs);
  bool has_sought = false;
  const std::vector<int> neighbours = control_neighbours(rank_, rank_count());
  const std::atomic<bool> never{false};
  TimeNs deadline = rendezvous.deadline;
  while (!endpoint_.is_passive()) {
    int missing = -1;
    bool has_failed = false;
    int lost = -1;
    const bool seeks = !has_sought && endpoint_.engine().clock().now() >= seek_at;
    has_sought |= seeks;
    endpoint_.driver().with_engine(
        [&] {
          has_failed = group_->queue.has_failed();
          if (has_failed && group_->queue.failure().code() == StatusCode::PeerLost)
            lost = group_->queue.failure().peer();
          for (const int neighbour : neighbours) {
            const PeerAddress& peer = agreement_.ranks[static_cast<size_t>(neighbour)].peer;
            const Link& link = endpoint_.engine().transport().link(peer.process_id);
            if (link.has_wire() || link.is_failed() || neighbour == lost) continue;
            missing = neighbour;
            if (seeks) endpoint_.engine().connect_now(peer);
          }
        },
        true);
    if (missing < 0) break;
    const TimeNs now = endpoint_.engine().clock().now();
    if (has_failed) deadline = std::min(deadline, now + kFailedWaitNs);
    if (rendezvous.interrupted && rendezvous.interrupted())
      return Status(StatusCode::Aborted, "the rendezvous was interrupted");
    if (now >= deadline && has_failed) break;
    if (now >= deadline)
      return Status(StatusCode::Timeout,
                    fmt::format("Timed out: {} has met the others of {} and is not connected to "
                                "this rank ({})",
                                name_of(missing), title_, endpoint_.record().peer.address),
                    rank_, missing);
    (void)endpoint_.driver().door()->wait(never, kLookNs, {});
  }
  return Status::ok();
}

}  // namespace mccl
