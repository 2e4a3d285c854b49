// One training step of a group of ranks in virtual time: an asynchronous device that computes, the
// real engine that averages gradient buckets, and the ways of ordering the two (MCCL, arXiv
// 2610.39029, section 5.1).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "mccl/status.h"
#include "verb/link_options.h"

namespace mccl {

enum class StepMode : uint8_t {
  Compute,        // no communication
  Communication,  // no compute: all buckets at once
  Overlapped,     // a bucket is averaged in place while the device computes the next ones
  Serialized,     // all compute, then all communication
  // What simpler designs do:
  StagedOwnQueue,   // as Overlapped, through copies on a queue of their own
  StagedAndWaited,  // each bucket is copied out, averaged and copied back; the host waits each time
  DrainPerBucket,   // the host waits for the device before it starts a bucket's average
  CopyAfterwards,   // after the backward pass: copy out, average, copy back, one by one
};

// "overlapped", "drain per bucket", ...
std::string_view step_mode_name(StepMode mode);

struct StepRequest {
  LinkChoice link;
  int rank_count = 24;
  int bucket_count = 18;
  int64_t bucket_bytes = int64_t{25} << 20;
  TimeNs forward_ns = 0;               // before the first bucket's kernels
  TimeNs backward_ns = 1'090'000'000;  // in which the buckets are written, equally far apart
  TimeNs host_ns = 20'000;  // that the host needs to encode a bucket's kernels and its call
  double copy_bytes_per_second = 100e9;  // of one copy between device memory and staging memory
  std::vector<TimeNs> lateness_ns = {};  // of each rank's step; empty: none
};

struct StepReport {
  TimeNs step_ns = 0;               // until the last rank's optimizer may have run
  std::vector<TimeNs> rank_ns;      // the same of each rank
  TimeNs host_wait_ns = 0;          // that rank 0's host waited for its device or for buckets
  int host_waits = 0;               // of rank 0
  int device_waits = 0;             // of rank 0's stream
  int copies = 0;                   // of whole buckets, rank 0
  uint64_t buffered_bytes_max = 0;  // parked messages and scratch, of the rank with the most
  // Of rank 0's buckets: when their kernels had finished and when their average was done.
  std::vector<TimeNs> ready_ns;
  std::vector<TimeNs> averaged_ns;
  TimeNs compute_end_ns = 0;  // of rank 0's backward pass
};

// InvalidArgument unless the step can be run.
Status check_step(const StepRequest& request);

// Errors of arguments (InvalidArgument), of plans and operations.
Result<StepReport> run_step(const StepRequest& request, StepMode mode);

}  // namespace mccl
