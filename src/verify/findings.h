// Collects findings: at most kFindingsMax, each text once.
//
// What is private to this folder lives in namespace mccl::judge, so that no name of `lang` can meet
// it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "verify/verify.h"

namespace mccl::judge {

constexpr size_t kFindingsMax = 20;

// A line of a counter-example and the step that it is about.
struct TraceLine {
  std::string text;
  FindingPlace place = {};
};

class FindingList {
 public:
  explicit FindingList(bool in_place) : in_place_(in_place) {}

  // The aliasing that later findings are about.
  void set_in_place(bool in_place) { in_place_ = in_place; }
  bool in_place() const { return in_place_; }

  // Drops the finding when the list is full or holds the same text under the same rule (a fault
  // that shows in both aliasing modes is told once); report_count() counts it all the same.
  void add(Rule rule, const FindingPlace& place, std::string text,
           std::vector<TraceLine> trace = {});

  bool is_empty() const { return findings_.empty(); }
  bool is_full() const { return findings_.size() >= kFindingsMax; }
  size_t report_count() const { return report_count_; }
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  bool in_place_;
  size_t report_count_ = 0;
  std::vector<Finding> findings_;
};

// "rank 0 lane 1 step 2", "rank 0 lane 1".
std::string step_name(int rank, int lane, int step);
std::string lane_name(int rank, int lane);

// "1 message", "2 messages".
std::string counted(int64_t count, const char* noun);

}  // namespace mccl::judge
