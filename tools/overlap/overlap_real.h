// The step of overlap_run.h in real time: ranks are threads of this process with endpoints of their
// own, over TCP on loopback; their devices compute by sleeping.
#pragma once

#include "overlap/overlap_run.h"

namespace mccl {

// `request.link`, `lateness_ns`, `host_ns` and `copy_bytes_per_second` are those of this machine
// and not looked at. Blocks for about as long as the step takes. Errors as for run_step().
Result<StepReport> run_real_step(const StepRequest& request, StepMode mode);

}  // namespace mccl
