#include "simulate/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "comm/simulated_group.h"
#include "ir/collective.h"
#include "planner/call_plan.h"
#include "planner/cost_model.h"

namespace mccl {
namespace {

constexpr int64_t kElementBytes = sizeof(float);

// Zeros, shared by all ranks; an operation has its own, or operations would wait for each other.
class Buffers {
 public:
  explicit Buffers(int64_t bytes)
      : data_(static_cast<std::byte*>(std::calloc(static_cast<size_t>(bytes), 1))) {}
  ~Buffers() { std::free(data_); }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  bool is_there() const { return data_ != nullptr; }
  std::byte* at(int64_t offset_bytes) const { return data_ + offset_bytes; }

 private:
  std::byte* data_;
};

// What one call works on, in the buffers of its operation.
struct CallMemory {
  std::byte* input;   // S bytes
  std::byte* output;  // S bytes; in place: the same
  int64_t block_elements;
  bool is_in_place;

  std::byte* block(std::byte* data, int index) const {
    return data + index * block_elements * kElementBytes;
  }
  template <typename UserBlock>
  std::vector<UserBlock> blocks(std::byte* data, int count) const {
    std::vector<UserBlock> list;
    for (int index = 0; index < count; ++index)
      list.push_back({block(data, index), block_elements});
    return list;
  }
};

Result<std::shared_ptr<Work>> post(Communicator& group, Collective collective,
                                   const CallMemory& memory, CallOptions options) {
  constexpr DataType kType = DataType::Float32;
  constexpr ReduceOp kSum = ReduceOp::Sum;
  const int ranks = group.rank_count();
  const int rank = group.rank();
  const int64_t count = memory.block_elements;
  const bool is_root = rank == 0;
  std::byte* const own_input =
      memory.is_in_place ? memory.block(memory.output, rank) : memory.input;
  std::byte* const own_output =
      memory.is_in_place ? memory.block(memory.input, rank) : memory.output;
  switch (collective) {
    case Collective::AllReduce:
      return group.all_reduce(memory.input, memory.output, count, kType, kSum, std::move(options));
    case Collective::AllGather:
      return group.all_gather(own_input, memory.blocks<OutputBlock>(memory.output, ranks), kType,
                              std::move(options));
    case Collective::Broadcast:
      return group.broadcast(memory.output, count, kType, 0, std::move(options));
    case Collective::ReduceScatter:
      return group.reduce_scatter(memory.blocks<InputBlock>(memory.input, ranks), own_output, kType,
                                  kSum, std::move(options));
    case Collective::Reduce:
      return group.reduce(memory.input, memory.output, count, kType, kSum, 0, std::move(options));
    case Collective::Gather:
      return group.gather(own_input, count,
                          memory.blocks<OutputBlock>(memory.output, is_root ? ranks : 0), kType, 0,
                          std::move(options));
    case Collective::Scatter:
      return group.scatter(memory.blocks<InputBlock>(memory.input, is_root ? ranks : 0), own_output,
                           count, kType, 0, std::move(options));
    case Collective::AllToAll:
    case Collective::Custom:
      break;
  }
  return group.all_to_all(memory.blocks<InputBlock>(memory.input, ranks),
                          memory.blocks<OutputBlock>(memory.output, ranks), kType,
                          std::move(options));
}

// The program and its plan, before anything runs.
struct Choice {
  std::string program;
  std::string reason;
  PlanEntry entry;
  double modelled_ns = 0;
};

Result<Choice> choose_program(const SimulationRequest& request, int64_t bytes) {
  PlannerSettings settings = request.link.settings;
  settings.algo = request.algorithm;
  settings.is_strict = !request.algorithm.empty();
  const Result<PlanTable> table =
      build_plan_table(topology_of(request.link, request.rank_count), settings);
  if (!table.is_ok()) return table.status();
  const Result<const PlanEntry*> entry =
      request.collective == Collective::AllToAll
          ? find_sizeless_entry(table.value(), request.collective)
          : find_entry(table.value(), request.collective, bytes);
  if (!entry.is_ok()) return entry.status();
  Choice choice{.program = entry.value()->algorithm,
                .reason = entry.value()->reason,
                .entry = *entry.value()};
  if (request.program != nullptr) {
    choice.program = request.program->program().name;
    choice.reason = "proven, and named on the command line";
    return choice;
  }
  if (!request.algorithm.empty()) choice.reason = "named on the command line";
  const ProgramChoice found = find_choice(choice.program, catalog());
  choice.modelled_ns =
      static_cast<double>(estimate_cost(program_cost(found, request.rank_count), request.link.costs,
                                        bytes, choice.entry.slice_bytes)
                              .total_ns);
  return choice;
}

class Simulation {
 public:
  Simulation(const SimulationRequest& request, Choice choice)
      : request_(request), choice_(std::move(choice)) {}

  Result<SimulationReport> run(int64_t block_elements, int block_count) {
    const int64_t bytes = block_elements * block_count * kElementBytes;
    const bool is_in_place = this->is_in_place();
    const int64_t each = is_in_place ? bytes : 2 * bytes;
    if (each > kSimulationBytesMax / request_.operation_count)
      return Status(StatusCode::InvalidArgument,
                    fmt::format("{} operations of {} bytes need {} bytes of memory, at most {} are "
                                "taken: make them fewer or smaller",
                                request_.operation_count, bytes, each * request_.operation_count,
                                kSimulationBytesMax));
    const Buffers buffers(std::max<int64_t>(each, block_count * 2 * kElementBytes) *
                          request_.operation_count);
    if (!buffers.is_there())
      return Status(StatusCode::Internal, "there is no memory for the buffers");
    MCCL_RETURN_IF_ERROR(make_group());
    if (!request_.is_cold) MCCL_RETURN_IF_ERROR(warm_up(buffers, block_count, is_in_place));
    const std::vector<uint64_t> sent_before = bytes_sent();
    begin_ns_ = world().clock().now();
    if (request_.trace != nullptr) request_.trace->begin(world().clock());
    std::vector<CallMemory> calls;
    for (int index = 0; index < request_.operation_count; ++index) {
      std::byte* const input = buffers.at(each * index);
      calls.push_back({input, is_in_place ? input : input + bytes, block_elements, is_in_place});
    }
    MCCL_RETURN_IF_ERROR(run_calls(calls));
    return report(bytes, sent_before);
  }

 private:
  sim::World& world() { return group_->world(); }

  bool is_in_place() const {
    if (request_.collective == Collective::AllToAll) return false;
    return request_.program == nullptr || request_.program->program().in_place;
  }

  Status make_group() {
    std::vector<std::pair<std::string, std::string>> settings = {
        {"MCCL_PROFILE", std::string(cost_profile_name(request_.link.settings.profile))},
        {"MCCL_LOG", "warning"},
        {"MCCL_TIMEOUT", "10000000"}};
    // By name, so that the warm-up makes the connections of the program that is measured.
    if (request_.program == nullptr) settings.emplace_back("MCCL_ALGO", choice_.program);
    Result<Config> config = parse_config(settings, nullptr);
    if (!config.is_ok()) return config.status();
    SimulatedGroupOptions options{.config = config.value(),
                                  .portions = portions(),
                                  .costs = request_.link.costs,
                                  .program = request_.program};
    if (request_.trace != nullptr)
      options.observer = [this](int rank) { return request_.trace->observer(rank); };
    sim::WorldOptions world = request_.world;
    world.latency_ns = request_.link.costs.alpha_ns;
    world.bytes_per_second = request_.link.costs.bytes_per_second;
    group_ = std::make_unique<SimulatedGroup>(request_.rank_count, world, std::move(options));
    return group_->add_communicator("world").status();
  }

  // A program of the catalogue has those of its plan. The planner knows nothing of others: they get
  // the window of one stream, law L1's alpha * B + max(slice, frame).
  std::optional<PlanPortions> portions() const {
    if (request_.program == nullptr) return std::nullopt;
    const LinkChoice& link = request_.link;
    const auto in_flight =
        static_cast<int64_t>(static_cast<double>(link.costs.alpha_high_ns) * 1e-9 *
                             static_cast<double>(link.costs.bytes_per_second));
    const int64_t window = in_flight + std::max(link.slice_bytes, link.frame_bytes);
    const int64_t slices = (window + link.slice_bytes - 1) / link.slice_bytes;
    return PlanPortions{.slice_bytes = link.slice_bytes, .window_bytes = slices * link.slice_bytes};
  }

  std::vector<uint64_t> bytes_sent() {
    std::vector<uint64_t> list;
    for (int rank = 0; rank < request_.rank_count; ++rank) list.push_back(world().bytes_sent(rank));
    return list;
  }

  // One small operation: connections exist and nothing is under way afterwards.
  Status warm_up(const Buffers& buffers, int block_count, bool is_in_place) {
    const CallMemory memory{buffers.at(0),
                            is_in_place ? buffers.at(0) : buffers.at(block_count * kElementBytes),
                            1, is_in_place};
    std::vector<std::shared_ptr<Work>> works;
    for (int rank = 0; rank < request_.rank_count; ++rank) {
      Result<std::shared_ptr<Work>> work =
          post(group_->communicator(rank), request_.collective, memory, {});
      if (!work.is_ok()) return work.status();
      works.push_back(std::move(work).value());
    }
    if (!group_->run(works)) return Status(StatusCode::Internal, "the first operation is stuck");
    for (const std::shared_ptr<Work>& work : works) MCCL_RETURN_IF_ERROR(work->status());
    (void)world().run([] { return false; });
    return Status::ok();
  }

  Status run_calls(const std::vector<CallMemory>& calls) {
    completion_ns_.assign(static_cast<size_t>(request_.rank_count), 0);
    for (int rank = 0; rank < request_.rank_count; ++rank) {
      const auto index = static_cast<size_t>(rank);
      const TimeNs late_ns = request_.lateness_ns.empty() ? 0 : request_.lateness_ns[index];
      world().at(begin_ns_ + late_ns, rank, [this, rank, &calls] {
        for (const CallMemory& memory : calls) call(rank, memory);
      });
    }
    const auto total = calls.size() * static_cast<size_t>(request_.rank_count);
    int percent = 0;
    const bool is_done = world().run([&] {
      const int now = static_cast<int>(100 * completed_count_ / total);
      if (now != percent && request_.on_progress) request_.on_progress(now);
      percent = now;
      return completed_count_ == total || !failure_.is_ok();
    });
    MCCL_RETURN_IF_ERROR(failure_);
    return is_done ? Status::ok() : Status(StatusCode::Internal, "the operations are stuck");
  }

  void call(int rank, const CallMemory& memory) {
    const uint64_t sequence = group_->communicator(rank).stats().operations_posted;
    if (request_.trace != nullptr) request_.trace->note_call(rank, sequence, choice_.program);
    CallOptions options;
    options.on_complete = [this, rank, sequence](const Status& status) {
      ++completed_count_;
      if (!status.is_ok() && failure_.is_ok()) failure_ = status;
      completion_ns_[static_cast<size_t>(rank)] = world().clock().now() - begin_ns_;
      if (request_.trace != nullptr)
        request_.trace->note_completion(rank, sequence, choice_.program);
    };
    Result<std::shared_ptr<Work>> work =
        post(group_->communicator(rank), request_.collective, memory, std::move(options));
    if (!work.is_ok() && failure_.is_ok()) failure_ = work.status();
    if (work.is_ok()) works_.push_back(std::move(work).value());
  }

  Result<SimulationReport> report(int64_t bytes, const std::vector<uint64_t>& sent_before) {
    SimulationReport report{.program = choice_.program,
                            .reason = choice_.reason,
                            .bytes = bytes,
                            .modelled_ns = choice_.modelled_ns,
                            .slice_bytes = choice_.entry.slice_bytes,
                            .completion_ns = completion_ns_,
                            .bytes_sent = bytes_sent(),
                            .buffered_bytes_max = {}};
    for (int rank = 0; rank < request_.rank_count; ++rank) {
      const auto index = static_cast<size_t>(rank);
      report.bytes_sent[index] -= sent_before[index];
      report.buffered_bytes_max.push_back(group_->buffered_bytes_max(rank));
    }
    return report;
  }

  const SimulationRequest& request_;
  Choice choice_;
  std::unique_ptr<SimulatedGroup> group_;
  TimeNs begin_ns_ = 0;
  std::vector<TimeNs> completion_ns_;
  uint64_t completed_count_ = 0;
  Status failure_;
  std::vector<std::shared_ptr<Work>> works_;
};

}  // namespace

TimeNs SimulationReport::duration_ns() const {
  return *std::max_element(completion_ns.begin(), completion_ns.end());
}

Result<SimulationReport> simulate(const SimulationRequest& request) {
  const int block_count = size_block_count(request.collective, request.rank_count);
  const int64_t block_elements = request.bytes / kElementBytes / block_count;
  if (block_elements < 1)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("{} bytes are less than one float32 for each of {} blocks",
                              request.bytes, block_count));
  Result<Choice> choice = choose_program(request, block_elements * block_count * kElementBytes);
  if (!choice.is_ok()) return choice.status();
  return Simulation(request, std::move(choice).value()).run(block_elements, block_count);
}

}  // namespace mccl
