// A communicator's own half: agreement with the other ranks, plans, programs, streams, tickets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "comm/bootstrap.h"
#include "comm/call.h"
#include "comm/endpoint_core.h"
#include "comm/fingerprint.h"
#include "mccl/communicator.h"
#include "planner/call_plan.h"
#include "planner/program_fit.h"

namespace mccl {

struct CommunicatorDump;

class CommunicatorCore {
 public:
  // Two steps, so that a simulator can let all ranks publish before rank 0 gathers.
  struct Rendezvous {
    EndpointCore* endpoint;
    std::unique_ptr<BootstrapHost> host;
    Bootstrap bootstrap;
    int rank;
    std::string title;
    TimeNs deadline;
    std::function<bool()> interrupted;
  };
  static Result<Rendezvous> publish(EndpointCore& endpoint, Store& store, int rank, int rank_count,
                                    const CommunicatorOptions& options);
  static Result<std::unique_ptr<CommunicatorCore>> finish(Rendezvous& rendezvous);
  ~CommunicatorCore();

  int rank() const { return rank_; }
  int rank_count() const { return static_cast<int>(agreement_.ranks.size()); }
  const Agreement& agreement() const { return agreement_; }

  // Takes a ticket and puts the operation into the queue. InvalidArgument and Unsupported leave the
  // communicator usable: nothing was sent.
  Result<std::shared_ptr<Work>> post(Call call, CallOptions options);

  // Point to point; `peer` -1 receives from anybody. Errors as for post().
  Result<std::shared_ptr<Work>> post_send(int peer, MessageSpec message, CallOptions options);
  Result<std::shared_ptr<Work>> post_receive(int peer, MessageSpec message, CallOptions options);

  void abort(const std::string& reason);
  CommunicatorStats stats();
  std::string explain(Collective collective, int64_t bytes,
                      const std::optional<CallFacts>& facts) const;
  std::string start_up_line() const;

  // The custom program of that name for this communicator's ranks; InvalidArgument when there is
  // none. Any thread.
  Result<const Algorithm*> find_custom(const std::string& program) const;

  // With the engine held. take_failure(): true once, when it has failed, unless the caller aborted
  // it.
  bool take_failure();
  CommunicatorDump dump_held() const;
  // "world, rank 3: peer lost: ...": once it has failed.
  std::string describe_failure() const;

 private:
  // A table entry in use: its program, proven, and what depends on it.
  struct Plan {
    const PlanEntry* entry;
    const Algorithm* algorithm;
    std::shared_ptr<const ProvenProgram> program;
    ProgramShape shape;
    uint32_t hash;
    bool is_named = false;                                 // by MCCL_ALGO
    std::map<int, std::shared_ptr<const RankCode>> codes;  // by the rank that the program sees
    size_t counter;                                        // index into counters_
  };
  struct StreamKey {
    const Plan* plan;
    int root;
    int set;
    int instances;
    auto operator<=>(const StreamKey&) const = default;
  };

  CommunicatorCore(EndpointCore& endpoint, int rank, std::string title, Agreement agreement);
  void open();
  // Until this rank is connected to its neighbours in the control tree: from then on whatever
  // happens to a rank can be told to all. Blocks.
  Status await_control_tree(const Rendezvous& rendezvous);
  static Result<PlanTable> decide(const EndpointCore& endpoint,
                                  const std::vector<RankRecord>& ranks);

  // With the engine held:
  // The plan for a call, and how the call is made to fit it.
  struct Choice {
    Plan* plan;
    Fit fit;
    int seen_rank;
  };
  Result<Choice> choose_plan(const Call& call, int64_t bytes);
  Result<Choice> choose_custom(const Call& call);
  Result<Plan*> find_plan(Collective collective, const PlanEntry& entry);
  // Whether all blocks of the collective's calls are equally long: a rule that users impose on
  // themselves.
  bool has_promised_equal_blocks(Collective collective) const {
    return collective == Collective::AllToAll && has_promised_all_to_all_;
  }
  void note_promised_blocks();
  // Counters of the programs from files that are not among those of the window.
  const std::vector<size_t>& refusals_outside(Collective collective, const PlanWindow& window,
                                              int64_t bytes);
  size_t number_of_refusal(RefusalCount refusal);
  void refuse(const LoadedProgram& loaded, FitRule rule, const CallFacts& facts);
  // Of a call that will be posted: counts it, and makes it fit.
  void count_call(const Choice& choice, Call& call, uint64_t moved, CallOptions& options);
  std::vector<LoadedCount> count_loaded() const;
  Result<std::shared_ptr<const ProvenProgram>> find_program(const ProgramChoice& choice);
  Result<CallPlan> cut(const Call& call, const Plan& plan) const;
  const std::shared_ptr<const RankCode>& find_code(Plan& plan, int root);
  Result<const std::vector<LaneStreams>*> find_streams(const Plan& plan, const RankCode& code,
                                                       int root, int set, int instances);
  Result<std::shared_ptr<Work>> post_held(Call& call, CallOptions& options,
                                          const std::shared_ptr<DeviceCall>& device);
  // Takes a ticket of the call's device, if it has one, on the caller's thread, makes the call with
  // the engine held by `post_held(device)`, and gives the ticket back when the call was refused.
  template <typename PostHeld>
  Result<std::shared_ptr<Work>> post_behind_device(const CallOptions& options,
                                                   const PostHeld& post_held);
  // "programs from files: loaded 1, proven 1, used 0 so far; 1 of them is for 8 ranks".
  std::string describe_loaded() const;
  // "programs from files: my_program served 3 calls".
  std::string describe_served();
  Status check_process() const;
  TimeNs deadline_of(const CallOptions& options, TimeNs now) const;
  Status connect_to(int peer);
  Result<std::shared_ptr<Work>> post_message(int peer, MessageSpec& message, CallOptions& options,
                                             bool is_send);
  std::vector<int> list_peers(const OperationRecord& record) const;
  int rank_of(uint64_t process) const;
  std::string name_of(int rank) const;

  EndpointCore& endpoint_;
  // Of all threads that wait on streams.
  const std::shared_ptr<DeviceCall::StreamWaits> stream_waits_ =
      std::make_shared<DeviceCall::StreamWaits>(0);
  int rank_;
  std::string title_;
  Agreement agreement_;
  std::map<uint64_t, int> rank_of_process_;
  EngineGroup* group_ = nullptr;
  bool has_told_failure_ = false;
  std::map<const Algorithm*, PlanEntry> custom_entries_;  // of calls that name their program
  std::unordered_map<const PlanEntry*, Plan> plans_;
  std::map<StreamKey, std::vector<LaneStreams>> streams_;
  std::vector<ProgramCount> counters_;
  std::vector<RefusalCount> refusals_;
  std::unordered_map<const PlanWindow*, std::vector<size_t>> outside_;
  std::set<Collective> named_collectives_;  // MCCL_ALGO names a program from a file for them
  bool has_promised_all_to_all_ = false;
  std::vector<std::string> notices_;  // to be logged once the engine is not held any more
  uint64_t message_count_ = 0;
  int host_count_ = 1;
};

}  // namespace mccl
