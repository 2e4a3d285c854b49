// Which program would serve a call on a network, and what is in the way of every other: what
// mccl.explain() tells of a live group, without one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mccl/status.h"
#include "mccl/types.h"
#include "planner/explain.h"
#include "verb/link_options.h"

namespace mccl {

struct ExplainRequest {
  LinkChoice link;
  Config config = {};  // which files, and by which rules
  Collective collective = Collective::AllReduce;
  int64_t bytes = 0;  // of a rank's larger buffer
  int rank_count = 2;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  bool is_in_place = false;
};

struct ExplainReport {
  Explanation explanation;
  // Where the programs come from, what proving them warned of.
  std::vector<std::string> notices;
};

// Reads and proves the files of the config. InvalidArgument: a file or a setting is wrong, or
// `bytes` is no whole number of elements. NotProven with all findings. Blocks on the files.
Result<ExplainReport> make_explain_report(const ExplainRequest& request);

}  // namespace mccl
