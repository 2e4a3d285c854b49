// Ranks as processes of this machine: this process becomes rank 0, forked ones the others, and they
// meet through a store on loopback.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mccl/rendezvous.h"
#include "mccl/status.h"

namespace mccl {

constexpr const char* kLocalHost = "127.0.0.1";

class LocalRanks {
 public:
  // What a forked process does: as rank `rank`, meeting the others at `port` of loopback, until
  // `interrupted` says that rank 0 is gone. It never returns to the caller's code.
  using RankMain =
      std::function<Status(int rank, int port, const std::function<bool()>& interrupted)>;

  // Forks, so the process must not have threads yet. The functions that `rank_main` captures by
  // reference need not outlive the call. Network when a process or the store cannot be made.
  static Result<std::unique_ptr<LocalRanks>> start(int rank_count, const RankMain& rank_main);
  // Ends (SIGKILL) whoever has not been waited for.
  ~LocalRanks();
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  int port() const { return server_->port(); }
  // Whether one of the others has ended with an error. Does not block.
  bool has_failed();
  // Waits until all have ended: the first one's error, in the order of ranks.
  Status finish();

 private:
  struct Child {
    pid_t process = -1;
    int port_pipe = -1;     // the port goes there
    int message_pipe = -1;  // its error comes from there
    bool has_ended = false;
    int state = 0;
  };
  LocalRanks() = default;
  static Result<Child> fork_rank(int rank, const RankMain& rank_main);
  bool look_at(Child& child, int flags);
  Status status_of(const Child& child, int rank) const;

  std::unique_ptr<StoreServer> server_;
  std::vector<Child> children_;
};

}  // namespace mccl
