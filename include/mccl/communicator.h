// Collectives among a fixed, ordered group of ranks.
//
//   auto endpoint = mccl::Endpoint::create({});                       // once per process
//   auto group = mccl::Communicator::create(endpoint.value(), store, rank, size, {});
//   auto work = group.value()->all_reduce(data, data, count, DataType::Float32, ReduceOp::Sum);
//   mccl::Status status = work.value()->wait();
//
// All ranks of a communicator make the same collective calls in the same order, and those on the
// same memory run in that order; between communicators, and between messages and collectives, that
// is the caller's duty. A call returns at once with a Work; the memory it names belongs to mccl
// until the Work is done. The first error ends the communicator: every Work, in flight or later,
// reports it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mccl/status.h"
#include "mccl/store.h"
#include "mccl/types.h"

namespace mccl {

class EndpointCore;
class CommunicatorCore;
class HandOff;

struct EndpointOptions {
  // Settings by their environment names, instead of the process's environment when not empty.
  std::vector<std::pair<std::string, std::string>> settings = {};
  // The rendezvous host, if there is one: the listener takes the address that routes to it. Numeric
  // or a name; loopback keeps the endpoint on loopback.
  std::string master_address = {};
  // What should be equal on all ranks and need not be, for one notice at the rendezvous:
  // ("torch", "2.13.0").
  std::vector<std::pair<std::string, std::string>> manifest = {};
};

// This process among others: one listener, one connection per peer process, one engine and its
// thread. Idle, it uses no CPU. Destroy it after its communicators.
class Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> create(const EndpointOptions& options);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Where it listens: "tcp://192.168.1.7:40112".
  std::string address() const;

  // Writes what all communicators have done last, as JSON for `mccl dump`, to `path`, else to the
  // directory of MCCL_DUMP_DIR; returns the path. Any thread. Blocks on the file.
  Result<std::string> write_dump(const std::string& path = {});

  // For the parts of mccl and its tests.
  EndpointCore& core() { return *core_; }
  explicit Endpoint(std::unique_ptr<EndpointCore> core);

 private:
  std::unique_ptr<EndpointCore> core_;
};

// A collective under way. Shared between its owner and the engine.
class Work {
 public:
  virtual ~Work() = default;

  // Any thread, does not block.
  virtual bool is_done() const = 0;
  // Ok while it is not done.
  virtual Status status() const = 0;

  // Blocks until the work is done, `timeout_ns` has passed (Timeout; the work goes on) or
  // `interrupted` returns true (Aborted; asked about ten times a second, may be empty). Negative:
  // no limit. The waiting thread moves data itself. Any thread.
  virtual Status wait(int64_t timeout_ns = -1, const std::function<bool()>& interrupted = {}) = 0;

  // Of memory that a device also uses, instead of wait(): what is encoded on its stream from now on
  // runs after the work, and the host goes on. True when that is so; false when the host has to
  // wait(), as for the CPU's memory, for messages, and where MCCL_DEVICE_WAIT is 0. An error of a
  // work that is done; a later one is what the communicator's next call says. The thread that made
  // the call. Does not block.
  virtual Result<bool> wait_on_stream() { return false; }

  // The number of the call in its communicator, from 0; send and recv count for themselves.
  virtual uint64_t sequence() const = 0;

  // Of a receive that is done: the rank that sent; -1 otherwise.
  virtual int source_rank() const { return -1; }
};

// Memory of the caller for which a call's buffers stand in: they are copies of it, because it is
// strided or is to be scaled. Calls are kept in order by what they read and write, so the copies
// are made when it is the call's turn.
struct StandIn {
  struct Range {
    const void* data = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Range> reads = {};  // all that the call reads and writes, also what has no copy
  std::vector<Range> writes = {};
  // Each may be empty, is called at most once, on the thread that drives the engine, and must not
  // call mccl; an error ends the communicator. Before the first element is read, and after the last
  // one is written, not after a failure. Of a send, copy_in is called at once; sends and receives
  // have no order against other calls.
  std::function<Status()> copy_in = {};
  std::function<Status()> copy_out = {};
};

// Optional words of a call.
struct CallOptions {
  // Deadline of the operation from now; negative: MCCL_TIMEOUT. Passing it ends the communicator.
  int64_t timeout_ns = -1;
  // Called once when the work is done, on the thread that drives the engine: must return soon, must
  // not call mccl.
  std::function<void(const Status&)> on_complete = {};
  // Null: the buffers are the caller's own memory.
  std::shared_ptr<const StandIn> stand_in = {};
  // The stream of an asynchronous device that also uses the memory: the call is ordered behind what
  // is encoded on it, and a signal is encoded and committed, by the calling thread. Null: the
  // memory is the CPU's, and ready.
  std::shared_ptr<HandOff> hand_off = {};
  // The caller waits at once: the endpoint's thread is not woken for what the waiter will do. Has
  // no effect with a hand_off.
  bool will_wait = false;
};

struct CommunicatorOptions {
  // Tells apart the communicators that share a store.
  std::string name = "world";
  // What messages call it, such as "group 1 (ranks 0, 3)"; empty: by its name.
  std::string title = {};
  // Deadline of the rendezvous; negative: MCCL_TIMEOUT.
  int64_t timeout_ns = -1;
  // Ends the rendezvous early (Ctrl-C); asked about ten times a second, may be empty.
  std::function<bool()> interrupted = {};
};

// What a program has done so far.
struct ProgramCount {
  Collective collective;
  std::string program;
  uint64_t calls = 0;
  uint64_t bytes = 0;
  std::string reason;  // why it was chosen
  // Of a program from a file, calls that were made to fit (MCCL_ALGO_FIT): chunks of different
  // lengths; input copied for the sake of its in-place claim; averages as sum and division.
  uint64_t ragged_calls = 0;
  uint64_t copied_calls = 0;
  uint64_t copied_bytes = 0;
  uint64_t averaged_calls = 0;
};

// A program that was loaded from a file: MSCCL_XML_FILES, MSCCL_CONFIG, MCCL_ALGO_DIR.
struct LoadedCount {
  std::string program;
  Collective collective;
  std::string file;
  int rank_count = 0;  // of communicators that it may serve
  uint64_t calls = 0;  // that it has served
};

// Calls that such a program computes and did not serve, by the first rule that was in the way.
struct RefusalCount {
  Collective collective;
  std::string program;
  std::string rule;    // "window", "divisibility"
  std::string reason;  // of the first such call
  std::string remedy;  // the smallest change that would have done
  uint64_t calls = 0;
};

struct CommunicatorStats {
  int rank = 0;
  int rank_count = 1;
  int host_count = 1;
  std::vector<ProgramCount> programs;  // in the order of first use
  std::vector<LoadedCount> loaded;     // by name
  std::vector<RefusalCount> refusals;  // in the order of first appearance
  uint64_t operations_posted = 0;
  uint64_t operations_completed = 0;
  // Of the endpoint, all communicators together.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t write_calls = 0;
  uint64_t read_calls = 0;
  uint64_t parked_bytes = 0;
  uint64_t refused_connections = 0;  // of strangers, and of processes of other jobs
};

// A rank's share of a buffer: `count` elements at `data`. Not owned.
struct OutputBlock {
  void* data = nullptr;
  int64_t count = 0;
};
struct InputBlock {
  const void* data = nullptr;
  int64_t count = 0;
};

class Communicator {
 public:
  // Meets the other ranks through the store and agrees on settings and plans; connections are made
  // on first use. Blocks until all ranks are there. Timeout names the ranks that are missing;
  // Mismatch names a setting that differs and both values.
  static Result<std::unique_ptr<Communicator>> create(Endpoint& endpoint, Store& store, int rank,
                                                      int rank_count,
                                                      const CommunicatorOptions& options);
  // Instead of create(), where this rank has no endpoint: the others' create() ends with `reason`
  // instead of waiting for it. Blocks for two seconds at most.
  static void decline(Store& store, int rank, int rank_count, const Status& reason,
                      const CommunicatorOptions& options);
  // Peers learn that this rank has left. Work not done ends with Aborted.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int rank_count() const;

  // output[i] = op over all ranks of input[i], `count` elements. `input` may be `output`.
  Result<std::shared_ptr<Work>> all_reduce(const void* input, void* output, int64_t count,
                                           DataType dtype, ReduceOp op, CallOptions options = {});

  // blocks[r] = rank r's input on every rank; blocks[rank()].count elements are read from `input`,
  // which may be blocks[rank()].data. Blocks may differ in length, all ranks name the same lengths.
  Result<std::shared_ptr<Work>> all_gather(const void* input, std::vector<OutputBlock> blocks,
                                           DataType dtype, CallOptions options = {});

  // `data` of `root` on every rank.
  Result<std::shared_ptr<Work>> broadcast(void* data, int64_t count, DataType dtype, int root,
                                          CallOptions options = {});

  // output[i] of rank r = op over all ranks of element i of their blocks[r]. One block per rank;
  // they may differ in length, all ranks name the same lengths, `output` has blocks[rank()].count
  // elements and may be blocks[rank()].data.
  Result<std::shared_ptr<Work>> reduce_scatter(std::vector<InputBlock> blocks, void* output,
                                               DataType dtype, ReduceOp op,
                                               CallOptions options = {});

  // As all_reduce, the result on `root` alone. `output` is not looked at elsewhere; on root it may
  // be `input`. The others' memory is left as it is.
  Result<std::shared_ptr<Work>> reduce(const void* input, void* output, int64_t count,
                                       DataType dtype, ReduceOp op, int root,
                                       CallOptions options = {});

  // blocks[r] of `root` = rank r's input of `count` elements. `blocks`: one per rank on root, each
  // `count` long, empty elsewhere; root's input may be blocks[root].data.
  Result<std::shared_ptr<Work>> gather(const void* input, int64_t count,
                                       std::vector<OutputBlock> blocks, DataType dtype, int root,
                                       CallOptions options = {});

  // Output of rank r = blocks[r] of `root`, `count` elements. `blocks`: one per rank on root, each
  // `count` long, empty elsewhere; root's output may be blocks[root].data.
  Result<std::shared_ptr<Work>> scatter(std::vector<InputBlock> blocks, void* output, int64_t count,
                                        DataType dtype, int root, CallOptions options = {});

  // outputs[s] of rank r = inputs[r] of rank s. One block per rank each; the length of inputs[r] on
  // rank s is that of outputs[s] on rank r, else both ranks fail with Mismatch. Input and output do
  // not overlap.
  Result<std::shared_ptr<Work>> all_to_all(std::vector<InputBlock> inputs,
                                           std::vector<OutputBlock> outputs, DataType dtype,
                                           CallOptions options = {});

  // Runs a custom collective: a program that was loaded from a file, by its name (program.h). On
  // every rank each chunk of the contract has `chunk_elements` elements, and `input` and `output`
  // are as many chunks as the contract gives this rank, one behind the other; they do not overlap.
  // `op` is what the program's reductions do, Avg is refused. InvalidArgument names what is loaded
  // when there is no custom program of that name for this number of ranks.
  Result<std::shared_ptr<Work>> custom(const std::string& program, const void* input, void* output,
                                       int64_t chunk_elements, DataType dtype,
                                       ReduceOp op = ReduceOp::Sum, CallOptions options = {});
  // The chunks that the contract of such a program gives this rank: input, output.
  Result<std::pair<int, int>> custom_chunk_counts(const std::string& program) const;

  // Point to point. Messages of one sender, one receiver and one tag arrive in the order of their
  // calls; different tags may be received in any order. A send is done when its memory may be
  // changed, which may be before the peer receives. Sender and receiver name the same dtype, and
  // the receiver room for exactly the sender's count: else both fail with Mismatch. `peer` is not
  // this rank. These calls take no part in the order of collectives.
  Result<std::shared_ptr<Work>> send(const void* data, int64_t count, DataType dtype, int peer,
                                     int64_t tag, CallOptions options = {});
  Result<std::shared_ptr<Work>> recv(void* data, int64_t count, DataType dtype, int peer,
                                     int64_t tag, CallOptions options = {});
  // From whichever rank sends first under this tag: Work::source_rank() says who.
  Result<std::shared_ptr<Work>> recv_any_source(void* data, int64_t count, DataType dtype,
                                                int64_t tag, CallOptions options = {});

  // Done when every rank has called it.
  Result<std::shared_ptr<Work>> barrier(CallOptions options = {});

  // Fails everything in flight and later, here and at the peers, with `reason`. Any thread,
  // idempotent.
  void abort(const std::string& reason);

  CommunicatorStats stats() const;
  // The plan for a call: every candidate with the first rule that rejected it. `bytes` is that of a
  // rank's larger buffer. With more words the rules are asked, too, that depend on more.
  std::string explain(Collective collective, int64_t bytes) const;
  struct CallWords {
    DataType dtype = DataType::Float32;
    ReduceOp op = ReduceOp::Sum;
    bool is_in_place = false;
  };
  std::string explain(Collective collective, int64_t bytes, const CallWords& words) const;
  // "4 ranks on 1 host, ..., 5 programs": one line.
  std::string start_up_line() const;

  CommunicatorCore& core() { return *core_; }
  explicit Communicator(std::unique_ptr<CommunicatorCore> core);

 private:
  std::unique_ptr<CommunicatorCore> core_;
};

}  // namespace mccl
