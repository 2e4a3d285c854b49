// The rendezvous (law L10): every rank publishes a record, rank 0 gathers them, decides, and
// publishes one blob. A handful of store requests per rank, n more on rank 0, none per collective.
//
// A store may keep keys of earlier runs, and of earlier communicators of this process. So rank 0
// makes up a number for every meeting, publishes it first, and all other keys carry it. A meeting
// that was over before this rank joined is an old one: the rank waits for the next number.
//
// The ranks watch each other while they wait: each connects to its parent in the control tree as
// soon as that has published its record, so that a process that ends meanwhile is seen. The first
// error of any rank becomes the meeting's blob, and so the error of every rank. A store cannot set
// a key only if it is not set yet: rank 0 may replace an error by the agreement in the same moment.
// So whoever fails also tells the processes that it is connected to that it has left the meeting,
// and a group that was formed without it fails at once.
//
// What the store holds is not trusted: another program may use its keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/rank_record.h"
#include "mccl/status.h"
#include "mccl/store.h"
#include "planner/plan_table.h"

namespace mccl {

// The control tree: rank r > 0 keeps a connection to this rank.
constexpr int kControlTreeArity = 8;
constexpr int control_parent(int rank) {
  return (rank - 1) / kControlTreeArity;
}
// Its parent and its children.
std::vector<int> control_neighbours(int rank, int rank_count);

// What all ranks hold after the rendezvous; the same on each.
struct Agreement {
  uint64_t communicator = 0;  // the meeting's number
  std::vector<RankRecord> ranks;
  PlanTable table;
};

// What a rendezvous asks of the endpoint. Called on the thread of publish() and finish().
class BootstrapHost {
 public:
  virtual ~BootstrapHost() = default;
  // Begins a connection; does not block.
  virtual void connect(const PeerAddress& peer) = 0;
  // Whether a connection is there and both sides have proven themselves.
  virtual bool is_connected(uint64_t process_id) = 0;
  // Processes to which connections were made and lost.
  virtual std::map<uint64_t, Status> lost_processes() = 0;
  // The error of a communicator of this endpoint that has failed since the rendezvous began.
  virtual Status failure() = 0;
  // Tells all processes to which there are connections that this one has left `meeting`, a group's
  // number, with `error`. Does not block.
  virtual void leave(uint64_t meeting, const Status& error) = 0;
  virtual void notice(const std::string& text) = 0;
};

struct BootstrapOptions {
  std::string name;   // key prefix
  std::string title;  // for messages
  int rank = 0;
  int rank_count = 1;
  int64_t timeout_ns = 0;
  std::function<bool()> interrupted = {};
  // What this rank's record says of its secret at the meeting (RankRecord::secret_check).
  std::function<std::string(const std::string& meeting)> check_secret = {};
  // What the table of plans may name on this rank. Not owned.
  std::span<const Algorithm* const> algorithms = catalog();
};

class Bootstrap {
 public:
  // All references outlive it.
  Bootstrap(Store& store, const Clock& clock, BootstrapHost& host, BootstrapOptions options);

  const std::string& name() const { return options_.name; }

  // Publishes this rank's record: rank 0 under `meeting`, a number that nobody has used before, the
  // others under rank 0's, for which they wait. Blocks.
  Status publish(const RankRecord& record, uint64_t meeting);

  // Instead of publish(): this rank cannot take part, and the others' finish() says why. `record`
  // is for its name, `meeting` as for publish(). Blocks for two seconds at most: until rank 0 has
  // opened the meeting.
  void decline(const RankRecord& record, uint64_t meeting, const Status& reason);

  // Rank 0: waits for all records, lets `decide` make the plan table and publishes the blob.
  // Others: wait for the blob. Timeout names the ranks whose record is missing; PeerLost a rank
  // that has ended meanwhile; Mismatch all settings that differ. Blocks.
  using Decide = std::function<Result<PlanTable>(const std::vector<RankRecord>&)>;
  Result<Agreement> finish(const Decide& decide);

 private:
  std::string key_of_meeting() const;
  std::string key_of_rank(int rank) const;
  std::string key_of_blob() const;
  // Set by a rank whose time is up: rank 0, who alone lists who is missing, is to do so now.
  std::string key_of_late() const;

  // The store's, within the rendezvous' time.
  Status set(const std::string& key, const std::string& value);
  Result<std::optional<std::string>> get(const std::string& key, TimeNs timeout_ns);
  StoreBound bound();
  bool is_interrupted();

  // Joins the meeting that rank 0 has called, once it is one that is not over.
  Status join();
  Status publish_record();
  // Whether rank 0 of a meeting that is over still lives and leads another group than this rank's:
  // then it will not call another meeting.
  Status check_over(TimeNs since);
  // Whether this process was in the meeting, which is over.
  Result<bool> took_part();
  Status describe_other_group(int rank_count, const std::string& title) const;
  // What ends a wait early: an interrupt, a lost rank, the error of another rank, a new meeting.
  Status look_around(const std::string& awaited, bool* has_new_meeting);
  // Rank 0: who is missing, if anybody. Others: what rank 0 says of it.
  Status end_of_time();
  // The value of `key`; nothing when another meeting was called meanwhile.
  Result<std::optional<std::string>> wait_for(const std::string& key);
  void pause();
  void give_notice();
  Status find_lost();
  Status missing_ranks(const std::string& missing) const;
  std::string missing_text();
  std::string awaited_text();
  // Tells the others.
  Status spread(const Status& error);
  Status parse_meeting(const std::string& text);

  Result<Agreement> lead(const Decide& decide);
  Result<Agreement> follow();
  Result<std::vector<RankRecord>> gather();
  // Of a rank of this meeting: what is there, and what comes; nothing as for wait_for().
  Result<std::optional<RankRecord>> find_record(int rank);
  Result<std::optional<RankRecord>> await_record(int rank);
  // What another rank has said that ended the meeting; ok when nobody has.
  Status heard_error();
  Result<Agreement> parse_blob(const std::string& text);

  Store& store_;
  const Clock& clock_;
  BootstrapHost& host_;
  BootstrapOptions options_;
  RankRecord own_;
  std::string meeting_;
  uint64_t meeting_number_ = 0;
  std::string looked_at_;  // the meeting that took_part() knows
  bool has_taken_part_ = false;
  bool has_joined_ = false;     // the meeting
  bool awaits_parent_ = false;  // its record is not there yet
  bool is_member_ = true;       // of what the meeting agreed on
  bool has_been_interrupted_ = false;
  bool is_leaving_ = false;  // has failed and tells the others
  TimeNs begin_;
  TimeNs deadline_;
  TimeNs notice_at_;
};

}  // namespace mccl
