// Ranks that meet over a store in memory, on one thread, for the tests of the rendezvous.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/bootstrap.h"
#include "planner/planner.h"

namespace mccl {

inline RankRecord record_of(int rank) {
  RankRecord record;
  record.peer = {static_cast<uint64_t>(rank) + 100, 7, "tcp://10.0.0.1:1"};
  record.host_name = "host" + std::to_string(rank);
  record.host_id = record.host_name;
  record.kernel_id = "kernel" + std::to_string(rank / 2);
  record.settings = "MCCL_ALGO=\nMCCL_PARK_LIMIT=268435456\n";
  record.version = "0.1.0";
  return record;
}

// What a rendezvous asked of its endpoint.
struct Host final : BootstrapHost {
  void connect(const PeerAddress& peer) override { connected.push_back(peer.process_id); }
  bool is_connected(uint64_t process_id) override { return alive == process_id; }
  std::map<uint64_t, Status> lost_processes() override { return lost; }
  Status failure() override { return failed; }
  void leave(uint64_t meeting, const Status& error) override {
    left.push_back(std::to_string(meeting) + " " + error.to_string());
  }
  void notice(const std::string& text) override {
    notices.push_back(text);
    if (on_notice) on_notice();
  }

  std::vector<uint64_t> connected;
  uint64_t alive = 0;
  std::map<uint64_t, Status> lost;
  Status failed;
  std::vector<std::string> left;  // "5 aborted: ..."
  std::vector<std::string> notices;
  std::function<void()> on_notice;
};

struct Meeting {
  Bootstrap bootstrap(int rank, int rank_count) { return bootstrap(rank, rank_count, "world"); }
  Bootstrap bootstrap(int rank, int rank_count, const std::string& title) {
    return Bootstrap(*store, clock, host, {"world", title, rank, rank_count, 0, {}});
  }
  // The table of rank 0 in these tests.
  static Result<PlanTable> decide(const std::vector<RankRecord>& ranks) {
    const int rank_count = static_cast<int>(ranks.size());
    Config config;
    config.is_canonical_order = true;
    return build_plan_table({rank_count, 1, std::vector<int>(ranks.size(), 0)},
                            planner_settings(config));
  }

  std::shared_ptr<Store> store = make_memory_store();
  ManualClock clock;
  Host host;
};

}  // namespace mccl
