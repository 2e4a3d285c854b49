#include "comm/communicator_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "algorithms/catalog.h"
#include "base/dtype.h"
#include "comm/posted_work.h"
#include "ir/collective.h"
#include "planner/planner.h"

namespace mccl {
namespace {

// (set, program channel, instance) to the channel on the wire, by strides that do not depend on the
// plan: operations of different plans share streams and keep their order (law L2).
uint32_t wire_channel(int set, int program_channel, int instance) {
  constexpr int kInstances = 1 << 8;
  constexpr int kChannels = 1 << 16;
  MCCL_CHECK_LT(instance, kInstances);
  MCCL_CHECK_LT(program_channel, kChannels);
  MCCL_CHECK_LT(set, 1 << 8);
  return (static_cast<uint32_t>(set) << 24) | (static_cast<uint32_t>(program_channel) << 8) |
         static_cast<uint32_t>(instance);
}

// What a call moves, for the counters: this rank's larger buffer.
uint64_t moved_bytes(const Call& call) {
  int64_t elements = call.count;
  if (call.collective == Collective::AllToAll)
    for (const Block& block : call.buffers.input) elements += block.count;
  return static_cast<uint64_t>(elements) * dtype_bytes(call.dtype);
}

// Lengths that every rank must name alike and that the call's size hides: of an all_gather's or a
// reduce_scatter's blocks, and the one length of an all_to_all that forwards blocks of others.
uint32_t hash_lengths(const Call& call, bool needs_equal_blocks) {
  uint64_t hash = needs_equal_blocks ? static_cast<uint64_t>(call.count_max) : 0;
  hash *= 0x9e3779b97f4a7c15ULL;
  const bool is_gather = call.collective == Collective::AllGather;
  if (is_gather || call.collective == Collective::ReduceScatter)
    for (const Block& block : is_gather ? call.buffers.output : call.buffers.input)
      hash = (hash ^ static_cast<uint64_t>(block.count)) * 0x9e3779b97f4a7c15ULL + 1;
  return static_cast<uint32_t>(hash >> 32);
}

// What a long message may have outstanding: what is on its way during a round of its credits (law
// L1: alpha * B and what a credit may wait behind), and one slice that is being taken.
uint32_t count_message_slices(const LinkProfile& link) {
  constexpr int64_t kSlicesMax = 64;
  const auto on_its_way =
      static_cast<int64_t>(static_cast<double>(link.costs.alpha_high_ns) * 2e-9 *
                           static_cast<double>(link.costs.bytes_per_second)) +
      link.frame_bytes;
  return static_cast<uint32_t>(
      std::clamp<int64_t>(2 + on_its_way / link.slice_bytes, 2, kSlicesMax));
}

Status check_equal_blocks(const Call& call, const std::string& algorithm) {
  for (const std::vector<Block>* blocks : {&call.buffers.input, &call.buffers.output})
    for (const Block& block : *blocks)
      if (block.count != call.count_max)
        return Status(
            StatusCode::InvalidArgument,
            fmt::format("MCCL_ALGO asks for {}, which needs blocks of equal length; there "
                        "are blocks of {} and {} elements: leave it out of MCCL_ALGO",
                        algorithm, block.count, call.count_max));
  return Status::ok();
}

Topology topology_of(const std::vector<RankRecord>& ranks) {
  Topology topology;
  topology.rank_count = static_cast<int>(ranks.size());
  topology.host_of_rank.clear();
  std::map<std::string, int> hosts;
  std::map<std::string, int> switches;
  for (const RankRecord& record : ranks) {
    topology.host_of_rank.push_back(
        hosts.try_emplace(record.host_id, static_cast<int>(hosts.size())).first->second);
    if (!record.switch_name.empty())
      topology.switch_of_rank.push_back(
          switches.try_emplace(record.switch_name, static_cast<int>(switches.size()))
              .first->second);
  }
  topology.host_count = static_cast<int>(hosts.size());
  return topology;
}

}  // namespace

Result<PlanTable> CommunicatorCore::decide(const EndpointCore& endpoint,
                                           const std::vector<RankRecord>& ranks) {
  PlannerSettings settings = planner_settings(endpoint.config());
  settings.costs = endpoint.costs();
  Result<PlanTable> table =
      build_plan_table(topology_of(ranks), settings, endpoint.library().algorithms());
  if (!table.is_ok() || !endpoint.portions()) return table;
  for (CollectivePlan& plan : table.value().collectives)
    for (PlanWindow& window : plan.windows) {
      window.others.push_back(std::move(window.entry));
      for (PlanEntry& entry : window.others) {
        entry.slice_bytes = endpoint.portions()->slice_bytes;
        entry.window_bytes = endpoint.portions()->window_bytes;
      }
      window.entry = std::move(window.others.back());
      window.others.pop_back();
    }
  return table;
}

CommunicatorCore::CommunicatorCore(EndpointCore& endpoint, int rank, std::string title,
                                   Agreement agreement)
    : endpoint_(endpoint),
      rank_(rank),
      title_(std::move(title)),
      agreement_(std::move(agreement)) {}

void CommunicatorCore::open() {
  const std::vector<RankRecord>& ranks = agreement_.ranks;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    rank_of_process_[ranks[rank].peer.process_id] = static_cast<int>(rank);
  const Topology topology = topology_of(ranks);
  host_count_ = topology.host_count;
  endpoint_.driver().set_wait_policy(
      choose_wait_policy(count_core_sharers(ranks, rank_),
                         static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))));
  OperationQueue::Words words;
  words.mismatch = [this](uint64_t sequence, const CallHead& first, const CallHead& second) {
    const auto rank_of_call = [this](const CallHead& head) {
      return head.process ? rank_of(*head.process) : rank_;
    };
    const int one = rank_of_call(first);
    const int other = rank_of_call(second);
    return Status(StatusCode::Mismatch,
                  describe_mismatch(sequence, one, first.fingerprint, other, second.fingerprint),
                  one, other);
  };
  words.ask = [this](uint64_t sequence, const Fingerprint& local, uint64_t process) {
    endpoint_.engine().transport().link(process).send_probe(agreement_.communicator, sequence,
                                                            local);
  };
  words.holdups = [this] { return endpoint_.engine().explain_wait(agreement_.communicator); };
  endpoint_.driver().with_engine(
      [&] {
        std::map<uint64_t, EngineMember> members;
        for (size_t rank = 0; rank < ranks.size(); ++rank)
          members[ranks[rank].peer.process_id] = {
              static_cast<int>(rank), name_of(static_cast<int>(rank)), ranks[rank].peer};
        if (rank_ > 0)
          endpoint_.engine().connect_now(ranks[static_cast<size_t>(control_parent(rank_))].peer);
        group_ = &endpoint_.engine().open_group(agreement_.communicator, title_, std::move(members),
                                                std::move(words));
        endpoint_.enter(*this);
        group_->queue.set_observer(endpoint_.step_observer());
        group_->queue.limit_device_waits(endpoint_.config().device_wait_ns);
        const LinkProfile& link = agreement_.table.link;
        group_->messages.set_portions(static_cast<size_t>(link.slice_bytes),
                                      count_message_slices(link));
      },
      true);
  const bool is_first = endpoint_.take_start_up_line();
  if (is_first && rank_ == 0) endpoint_.logger().info(start_up_line());
  note_promised_blocks();
  if (rank_ == 0 && !endpoint_.library().loaded().empty())
    endpoint_.logger().info(title_ + ": " + describe_loaded());
}

CommunicatorCore::~CommunicatorCore() {
  if (!endpoint_.is_own_process()) return;
  if (rank_ == 0 && !endpoint_.library().loaded().empty())
    endpoint_.logger().info(title_ + ": " + describe_served());
  endpoint_.driver().with_engine(
      [this] {
        endpoint_.leave(*this);
        endpoint_.engine().close_group(
            agreement_.communicator,
            Status(StatusCode::Aborted, name_of(rank_) + " destroyed the communicator with "
                                                         "operations in flight"));
      },
      false);
}

const std::shared_ptr<const RankCode>& CommunicatorCore::find_code(Plan& plan, int root) {
  const int seen_rank = (rank_ - root + rank_count()) % rank_count();
  std::shared_ptr<const RankCode>& code = plan.codes[seen_rank];
  if (code == nullptr) code = make_rank_code(plan.program, seen_rank);
  return code;
}

Status CommunicatorCore::connect_to(int peer) {
  const RankRecord& record = agreement_.ranks[static_cast<size_t>(peer)];
  Link& link = endpoint_.engine().transport().link(record.peer.process_id);
  if (link.peer_name().empty()) link.set_peer_name(name_of(peer));
  // What a rank sent before it left is here and serves; whether more is needed of it is judged when
  // the call is posted.
  if (link.is_failed() && group_->left.contains(record.peer.process_id)) return Status::ok();
  if (link.is_failed() && !endpoint_.engine().is_judged(link)) return Status::ok();
  if (link.is_failed())
    return Status(StatusCode::PeerLost, "lost " + name_of(peer) + ": " + link.failure().message(),
                  rank_, peer);
  return endpoint_.engine().transport().connect(record.peer);
}

Result<const std::vector<LaneStreams>*> CommunicatorCore::find_streams(const Plan& plan,
                                                                       const RankCode& code,
                                                                       int root, int set,
                                                                       int instances) {
  std::vector<LaneStreams>& streams = streams_[{&plan, root, set, instances}];
  if (!streams.empty() || code.lanes.empty()) return &streams;
  std::vector<LaneStreams> found;
  Transport& transport = endpoint_.engine().transport();
  const auto link_to = [&](int seen_peer) -> Result<Link*> {
    const int peer = (seen_peer + root) % rank_count();
    MCCL_RETURN_IF_ERROR(connect_to(peer));
    return &transport.link(agreement_.ranks[static_cast<size_t>(peer)].peer.process_id);
  };
  for (const LaneCode& lane : code.lanes)
    for (int instance = 0; instance < instances; ++instance) {
      LaneStreams ends;
      const uint32_t channel = wire_channel(set, lane.channel, instance);
      if (lane.last_send_step >= 0) {
        Result<Link*> link = link_to(lane.send_peer);
        if (!link.is_ok()) return link.status();
        ends.send = &link.value()->send_stream(agreement_.communicator, channel);
      }
      if (lane.last_recv_step >= 0) {
        Result<Link*> link = link_to(lane.recv_peer);
        if (!link.is_ok()) return link.status();
        ends.recv = &link.value()->recv_stream(agreement_.communicator, channel);
      }
      found.push_back(ends);
    }
  streams = std::move(found);
  return &streams;
}

TimeNs CommunicatorCore::deadline_of(const CallOptions& options, TimeNs now) const {
  const TimeNs timeout =
      options.timeout_ns < 0 ? endpoint_.config().timeout_ns : options.timeout_ns;
  return deadline_after(now, timeout);
}

Status CommunicatorCore::check_process() const {
  if (endpoint_.is_own_process()) return Status::ok();
  return Status(StatusCode::InvalidArgument,
                "this process was forked from the one that made the communicator");
}

Result<std::shared_ptr<Work>> CommunicatorCore::post(Call call, CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_process());
  if (is_reducing(call.collective) && !endpoint_.device().supports(call.dtype, call.op))
    return Status(StatusCode::Unsupported, describe_undefined_reduction(call.dtype, call.op));
  std::vector<std::string> notices;
  Result<std::shared_ptr<Work>> work =
      post_behind_device(options, [&](const std::shared_ptr<DeviceCall>& device) {
        Result<std::shared_ptr<Work>> posted = post_held(call, options, device);
        notices = std::exchange(notices_, {});
        return posted;
      });
  if (rank_ == 0)
    for (const std::string& notice : notices) endpoint_.logger().info(notice);
  return work;
}

template <typename PostHeld>
Result<std::shared_ptr<Work>> CommunicatorCore::post_behind_device(const CallOptions& options,
                                                                   const PostHeld& post_held) {
  std::shared_ptr<DeviceCall> device;
  if (options.hand_off != nullptr) {
    const Result<uint64_t> ticket = options.hand_off->signal_producer();
    if (!ticket.is_ok()) return ticket.status();
    device = std::make_shared<DeviceCall>(options.hand_off, ticket.value(), stream_waits_);
    DeviceCall::await_producer(device, [bell = endpoint_.engine().device_bell()] { bell->ring(); });
  }
  Result<std::shared_ptr<Work>> result = Status(StatusCode::Internal, "not posted");
  // A wait that is left to the device's stream drives nothing: the endpoint's thread has to.
  const bool will_drive = options.will_wait && device == nullptr;
  endpoint_.driver().with_engine([&] { result = post_held(device); }, will_drive);
  if (!result.is_ok() && device != nullptr) device->raise_consumer();
  return result;
}

Result<CallPlan> CommunicatorCore::cut(const Call& call, const Plan& plan) const {
  const int64_t park_limit_bytes = agreement_.table.park_limit_bytes;
  if (call.collective != Collective::AllToAll || !plan.shape.is_direct)
    return plan_call(*plan.entry, plan.shape, call.count_max,
                     static_cast<int64_t>(dtype_bytes(call.dtype)), park_limit_bytes);
  return plan_direct_call(*plan.entry, plan.shape, park_limit_bytes);
}

Result<std::shared_ptr<Work>> CommunicatorCore::post_held(
    Call& call, CallOptions& options, const std::shared_ptr<DeviceCall>& device) {
  OperationQueue& queue = group_->queue;
  if (queue.has_failed()) return queue.failure();
  const int64_t element_bytes = static_cast<int64_t>(dtype_bytes(call.dtype));
  const int64_t bytes = call.count * element_bytes;
  const Result<Choice> chosen = choose_plan(call, bytes);
  if (!chosen.is_ok()) return chosen.status();
  Plan& plan = *chosen.value().plan;
  if (plan.algorithm->needs_equal_blocks || has_promised_equal_blocks(call.collective))
    MCCL_RETURN_IF_ERROR(check_equal_blocks(call, plan.entry->algorithm));
  Result<CallPlan> cut = this->cut(call, plan);
  if (!cut.is_ok()) return cut.status();
  const uint64_t moved = moved_bytes(call);
  const std::shared_ptr<const RankCode>& code = find_code(plan, call.root);
  const uint64_t sequence = queue.posted_count();
  const int set = static_cast<int>(sequence % static_cast<uint64_t>(plan.entry->channel_sets));
  const int instances = static_cast<int>(cut.value().instance_count);
  Result<const std::vector<LaneStreams>*> streams =
      find_streams(plan, *code, call.root, set, instances);
  if (!streams.is_ok()) {
    queue.fail(streams.status());  // the peers take this ticket, we cannot
    return streams.status();
  }

  count_call(chosen.value(), call, moved, options);
  auto work = std::make_shared<PostedWork>(endpoint_.driver().door(), sequence,
                                           std::move(options.on_complete));
  if (device != nullptr) work->set_device(device, endpoint_.config().device_wait_ns > 0);
  OperationSpec spec;
  spec.sequence = sequence;
  spec.code = code;
  spec.streams = *streams.value();
  spec.shape = {.iterations = static_cast<int>(cut.value().iteration_count),
                .is_cut_by_lane = cut.value().is_cut_by_lane,
                .instances = instances,
                .slice_elements = cut.value().slice_bytes / element_bytes,
                .messages = static_cast<uint32_t>(kMessagesOwnedPerStream)};
  spec.fingerprint =
      pack_fingerprint({call.collective, call.dtype, call.op, call.root, call.count, plan.hash,
                        hash_lengths(call, plan.algorithm->needs_equal_blocks ||
                                               has_promised_equal_blocks(call.collective)),
                        call.waits_for_earlier});
  spec.plan = static_cast<uint32_t>(plan.counter);
  spec.bytes = moved;
  spec.buffers = std::move(call.buffers);
  spec.dtype = call.dtype;
  spec.op = call.op;
  spec.rank_count = rank_count();
  spec.waits_for_earlier = call.waits_for_earlier;
  spec.posted_at = endpoint_.engine().clock().now();
  spec.deadline = deadline_of(options, spec.posted_at);
  spec.stand_in = std::move(options.stand_in);
  spec.device = device;
  spec.sink = work;
  queue.post(std::move(spec));
  endpoint_.engine().judge_members_that_left(*group_);
  return std::shared_ptr<Work>(std::move(work));
}

Result<std::shared_ptr<Work>> CommunicatorCore::post_send(int peer, MessageSpec message,
                                                          CallOptions options) {
  return post_message(peer, message, options, true);
}

Result<std::shared_ptr<Work>> CommunicatorCore::post_receive(int peer, MessageSpec message,
                                                             CallOptions options) {
  return post_message(peer, message, options, false);
}

Result<std::shared_ptr<Work>> CommunicatorCore::post_message(int peer, MessageSpec& message,
                                                             CallOptions& options, bool is_send) {
  MCCL_RETURN_IF_ERROR(check_process());
  const auto post =
      [&](const std::shared_ptr<DeviceCall>& device) -> Result<std::shared_ptr<Work>> {
    if (group_->queue.has_failed()) return group_->queue.failure();
    if (is_send &&
        group_->left.contains(agreement_.ranks[static_cast<size_t>(peer)].peer.process_id))
      group_->queue.fail(
          Status(StatusCode::PeerLost,
                 name_of(peer) + " destroyed the communicator, and this rank still sends to it",
                 rank_, peer));
    if (group_->queue.has_failed()) return group_->queue.failure();
    // Of two processes one connects: who waits for anybody must be reachable by everybody.
    for (int other = 0; other < rank_count(); ++other)
      if (other != rank_ && (peer == -1 || peer == other)) MCCL_RETURN_IF_ERROR(connect_to(other));
    if (peer != -1)
      message.link = &endpoint_.engine().transport().link(
          agreement_.ranks[static_cast<size_t>(peer)].peer.process_id);
    auto work = std::make_shared<PostedWork>(endpoint_.driver().door(), message_count_++,
                                             std::move(options.on_complete));
    if (!is_send) work->set_rank_of([this](uint64_t process) { return rank_of(process); });
    message.posted_at = endpoint_.engine().clock().now();
    message.deadline = deadline_of(options, message.posted_at);
    message.stand_in = std::move(options.stand_in);
    // A peer's message may be long in coming: the host waits for it, not the device.
    if (device != nullptr) work->set_device(device, false);
    message.device = device;
    message.sink = work;
    if (is_send)
      group_->messages.send(std::move(message));
    else
      group_->messages.receive(std::move(message));
    endpoint_.engine().judge_members_that_left(*group_);
    return std::shared_ptr<Work>(std::move(work));
  };
  return post_behind_device(options, post);
}

void CommunicatorCore::abort(const std::string& reason) {
  if (!endpoint_.is_own_process()) return;
  endpoint_.driver().with_engine(
      [&] {
        if (!group_->queue.has_failed()) has_told_failure_ = true;  // the caller knows
        group_->queue.fail(Status(StatusCode::Aborted, name_of(rank_) + " aborted: " + reason));
      },
      false);
}

}  // namespace mccl
