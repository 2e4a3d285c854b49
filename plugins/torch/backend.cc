// Life of a group, posting of calls, coalescing. Every call of torch ends in post().
#include "backend.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "comm/endpoint_core.h"
#include "torch_store.h"
#include "work_group.h"

namespace mccl {
namespace {

c10d::ErrorType error_type_of(StatusCode code) {
  switch (code) {
    case StatusCode::Ok:
      return c10d::ErrorType::SUCCESS;
    case StatusCode::Timeout:
      return c10d::ErrorType::TIMEOUT;
    case StatusCode::PeerLost:
      return c10d::ErrorType::REMOTE_ERROR;
    case StatusCode::InvalidArgument:
    case StatusCode::Unsupported:
    case StatusCode::NotProven:
    case StatusCode::Mismatch:
    case StatusCode::Network:
    case StatusCode::Aborted:
    case StatusCode::Internal:
      break;
  }
  return c10d::ErrorType::COMM_ERROR;
}

// "group 1 (global ranks 0, 3)"
std::string title_of(const Backend::Options& options, int size) {
  std::string title = "group " + (options.group_name.empty() ? "world" : options.group_name);
  const std::vector<uint64_t>& globals = options.global_ranks_in_group;
  if (static_cast<int>(globals.size()) != size || globals.empty()) return title;
  return c10::str(title, " (global ranks ", c10::Join(", ", globals), ")");
}

bool is_point_to_point(c10d::OpType type) {
  return type == c10d::OpType::SEND || type == c10d::OpType::RECV ||
         type == c10d::OpType::RECVANYSOURCE;
}

}  // namespace

const at::Tensor& only_tensor(const std::vector<at::Tensor>& tensors, const char* call) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "mccl: ", call, " takes one tensor per rank, not ",
                    tensors.size());
  return tensors[0];
}

// One per process while any group lives: made by the first, destroyed with the last.
struct Backend::Shared {
  pid_t pid = getpid();
  std::atomic<bool> has_noted_staging{false};
  std::unique_ptr<Endpoint> endpoint;
  // Of groups that are gone. Closed by the thread that ends the last group, when all is completed.
  std::shared_ptr<DeviceWorks> late_works = std::make_shared<DeviceWorks>(nullptr);
  std::optional<CompletionThread> completions{std::in_place};

  ~Shared() {
    completions.reset();
    late_works->close();
  }
};

// The one mutable global of the project (design 3): the process-wide endpoint.
struct Backend::Process {
  std::mutex mutex;  // held while the process forks
  std::weak_ptr<Shared> shared;
  std::shared_ptr<Shared> forking;

  static Process& own() {
    static Process process;
    return process;
  }
};

void Backend::begin_fork() {
  Process& process = Process::own();
  process.mutex.lock();
  process.forking = process.shared.lock();
  // The endpoint of this process's own parent, of which nothing is open here.
  if (process.forking != nullptr && process.forking->pid != getpid()) process.forking.reset();
  if (process.forking != nullptr) process.forking->endpoint->core().own_wires()->begin_fork();
}

void Backend::end_fork(ForkSide side) {
  Process& process = Process::own();
  const std::shared_ptr<Shared> forked = std::exchange(process.forking, nullptr);
  if (forked != nullptr) forked->endpoint->core().own_wires()->end_fork(side);
  process.mutex.unlock();
  // Never to be destroyed there: its threads are the parent's.
  if (forked != nullptr && side == ForkSide::Child) (void)new std::shared_ptr<Shared>(forked);
}

std::shared_ptr<Backend::Shared> Backend::share(const std::string& master_address) {
  Process& process = Process::own();
  const std::lock_guard lock(process.mutex);
  std::shared_ptr<Shared> living = process.shared.lock();
  if (living != nullptr && living->pid == getpid()) return living;
  if (living != nullptr)
    // Forked: the threads of that endpoint are the parent's, so it can be neither used nor ended.
    (void)new std::shared_ptr<Shared>(std::move(living));
  Result<std::unique_ptr<Endpoint>> endpoint =
      Endpoint::create({{}, master_address, {{"torch", TORCH_VERSION}}});
  throw_unless_ok(endpoint.status());
  living = std::make_shared<Shared>();
  living->endpoint = std::move(endpoint).value();
  process.shared = living;
  return living;
}

std::shared_ptr<Backend::Shared> Backend::share_or_decline(
    const std::string& master_address, const c10::intrusive_ptr<c10d::Store>& store, int rank,
    int size, const Options& options) {
  try {
    return share(master_address);
  } catch (const c10::Error& error) {
    TorchStore meeting_place(store);
    CommunicatorOptions words;
    words.title = title_of(options, size);
    Communicator::decline(meeting_place, rank, size,
                          Status(StatusCode::InvalidArgument, error.what_without_backtrace()),
                          words);
    throw;
  }
}

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<Options> options, const std::string& master_address,
                 InterpreterHooks hooks)
    : c10d::Backend(rank, size),
      hooks_(std::move(hooks)),
      options_(std::move(options)),
      timeout_(options_->timeout),
      shared_(share_or_decline(master_address, store, rank, size, *options_)),
      device_works_(std::make_shared<DeviceWorks>(
          shared_->late_works,
          [logger = &shared_->endpoint->core().logger()](const Status& status) {
            logger->error(
                "a call whose wait() had been left to the device's stream failed, and "
                "kernels behind it read what was not reduced: " +
                status.message());
          })) {
  init();
  // torch gives every group a timeout, also who has asked for none.
  if (options_->timeout == kBackendDefaultTimeout)
    timeout_ = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::nanoseconds(shared_->endpoint->core().config().timeout_ns));
  is_unified_in_place_ = shared_->endpoint->core().config().is_unified_in_place;
  TorchStore meeting_place(store);
  CommunicatorOptions communicator_options;
  communicator_options.timeout_ns = limit_ns(timeout_.load());
  communicator_options.title = title_of(*options_, size);
  std::exception_ptr interrupt;
  communicator_options.interrupted = [&] {
    interrupt = hooks_.take_interrupt();
    return interrupt != nullptr;
  };
  Result<std::unique_ptr<Communicator>> communicator =
      Communicator::create(*shared_->endpoint, meeting_place, rank, size, communicator_options);
  if (interrupt != nullptr) std::rethrow_exception(interrupt);
  throw_unless_ok(communicator.status());
  communicator_ = std::move(communicator).value();
}

Backend::~Backend() {
  hooks_.without_lock([this] { shutdown(); });
}

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions() {
  auto copy = c10::make_intrusive<Options>(*options_);
  copy->timeout = timeout_.load();
  return copy;
}

Backend::Living Backend::living() {
  const std::lock_guard lock(mutex_);
  return {shared_, communicator_};
}

Backend::Living Backend::check_living() {
  Living found = living();
  TORCH_CHECK_WITH(DistBackendError, found.communicator != nullptr,
                   "mccl: the process group was shut down");
  return found;
}

void Backend::shutdown() {
  Living leaving;
  decltype(coalescing_) endless;  // dropped after the lock
  {
    // Of a forked child there is one thread, and what another one of the parent had locked stays
    // so.
    std::unique_lock lock(mutex_, std::defer_lock);
    if (pid_ == getpid()) lock.lock();
    leaving = {std::move(shared_), std::move(communicator_)};
    endless.swap(coalescing_);
  }
  if (leaving.shared != nullptr && leaving.shared->pid != getpid()) {
    // A forked child: the threads to end and join are the parent's. Nothing here is its own.
    (void)new Living(std::move(leaving));
    return;
  }
  device_works_->await_streams();
  leaving.communicator.reset();
  device_works_->close();
  leaving.shared.reset();  // the last group's ends the completion thread, after what it has to run
}

void Backend::abort(const std::string& reason) {
  const Living found = living();
  if (found.communicator != nullptr) found.communicator->abort(reason);
}

void Backend::note_staging(const Call& call, Shared& shared) {
  const uint64_t bytes = call.staging.staged_bytes();
  if (bytes == 0) return;
  ++staged_calls_;
  staged_bytes_ += bytes;
  if (shared.has_noted_staging.exchange(true)) return;
  shared.endpoint->core().logger().info(
      std::string(call.title.text) + " copies " + std::to_string(bytes) +
      " bytes through memory of ours, since a tensor is not contiguous, shares memory with another "
      "or is scaled, or by MCCL_UNIFIED_COLLECTIVE; later copies are counted in mccl.stats() only");
}

Backend::TorchWorkPointer Backend::post(Call call) {
  const Living found = check_living();
  note_staging(call, *found.shared);
  const Title& title = call.title;
  CallOptions options;
  options.hand_off = call.staging.take_hand_off();
  const bool is_on_device = options.hand_off != nullptr;
  if (is_on_device) {
    device_works_->count_call();
    device_works_->drop_kept();
  }
  options.stand_in = call.staging.take_stand_in();
  CallMemory memory = call.staging.take_memory();
  memory.outputs = std::move(call.outputs);
  memory.finish = std::move(call.finish);
  auto work = c10::make_intrusive<TorchWork>(
      getRank(), title.type, title.text, std::move(memory), hooks_.take_interrupt,
      *found.shared->completions, !title.is_async, is_on_device ? device_works_ : nullptr);
  options.timeout_ns = limit_of(title.timeout);
  options.will_wait = !title.is_async;
  // Held by the engine until the operation is over; a dropped Work completes all the same.
  options.on_complete = [work, error = error_](const Status& status) mutable {
    auto expected = c10d::ErrorType::SUCCESS;
    error->compare_exchange_strong(expected, error_type_of(status.code()));
    TorchWork::on_operation_over(std::move(work), status);
  };
  Result<std::shared_ptr<mccl::Work>> posted =
      call.start(*found.communicator, call.staging.dtype(), std::move(options));
  throw_unless_ok(posted.status());
  work->set_work(std::move(posted).value());
  if (!is_point_to_point(title.type)) ++collective_count_;
  const std::lock_guard lock(mutex_);
  const auto batch = coalescing_.find(std::this_thread::get_id());
  if (batch != coalescing_.end()) batch->second.push_back(work);
  return work;
}

Backend::WorkPointer Backend::post_all(c10d::OpType type, std::vector<Call> calls) {
  std::vector<TorchWorkPointer> parts;
  for (Call& call : calls) parts.push_back(post(std::move(call)));
  return combine(type, std::move(parts));
}

Backend::WorkPointer Backend::combine(c10d::OpType type, std::vector<TorchWorkPointer> parts) {
  if (parts.size() == 1) return parts[0];
  return c10::make_intrusive<WorkGroup>(getRank(), type, std::move(parts));
}

void Backend::startCoalescing() {
  std::vector<TorchWorkPointer> endless;  // dropped after the lock
  const std::lock_guard lock(mutex_);
  endless.swap(coalescing_[std::this_thread::get_id()]);
}

Backend::WorkPointer Backend::endCoalescing() {
  std::vector<TorchWorkPointer> parts;
  {
    const std::lock_guard lock(mutex_);
    auto batch = coalescing_.extract(std::this_thread::get_id());
    TORCH_CHECK_VALUE(!batch.empty(), "mccl: coalescing ends that has not begun");
    parts = std::move(batch.mapped());
  }
  return combine(c10d::OpType::COALESCED, std::move(parts));
}

void Backend::check_member(const char* what, int64_t rank) const {
  if (rank >= 0 && rank < getSize()) return;
  std::string known;
  const std::vector<uint64_t>& globals = options_->global_ranks_in_group;
  if (!globals.empty()) {
    known = c10::str(" (global ranks ", c10::Join(", ", globals), ")");
    const auto found = std::find(globals.begin(), globals.end(), static_cast<uint64_t>(rank));
    if (found != globals.end())
      known += c10::str("; global rank ", rank, " is group rank ", found - globals.begin());
  }
  TORCH_CHECK_VALUE(false, "mccl: ", what, " is group rank ", rank,
                    "; this group has group ranks 0 to ", getSize() - 1, known);
}

void Backend::check_peer(const char* what, int64_t rank) const {
  check_member(what, rank);
  TORCH_CHECK_VALUE(rank != getRank(), "mccl: ", what, " is group rank ", rank,
                    ", which is this rank; copy the tensor instead");
}

int64_t Backend::limit_of(std::chrono::milliseconds timeout) const {
  return limit_ns(timeout == c10d::kUnsetTimeout ? timeout_.load() : timeout);
}

CommunicatorStats Backend::stats() {
  return check_living().communicator->stats();
}

std::string Backend::explain(Collective collective, int64_t bytes,
                             const std::optional<Communicator::CallWords>& words) {
  const Living living = check_living();
  return words ? living.communicator->explain(collective, bytes, *words)
               : living.communicator->explain(collective, bytes);
}

std::string Backend::write_dump(const std::string& path) {
  Result<std::string> written = check_living().shared->endpoint->write_dump(path);
  throw_unless_ok(written.status());
  return std::move(written).value();
}

}  // namespace mccl
