// One seeded run of training steps on simulated devices: kernels write buckets, all-reduces average
// them in place while later kernels run, and kernels that read them wait on the stream. The host
// never waits for the device. Everything but the device is the real engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/program_prover.h"
#include "sim/device.h"

namespace mccl {

// What a caller or a back end may do wrong, besides the faults of the device's own hand-off.
enum class CallerFault : uint8_t {
  None,
  EarlyRelease,  // the bucket is released when the call has returned
  Temporary,     // reduced in a device temporary that is released when the call has returned
};

struct HandOffRunOptions {
  uint64_t seed = 1;
  sim::HandOffFault device_fault = sim::HandOffFault::None;
  CallerFault caller_fault = CallerFault::None;
};

struct HandOffRunOutcome {
  bool has_ended = false;           // every host, work and device came to its end
  uint64_t wrong_elements = 0;      // that a kernel read, or that a bystander held
  std::vector<std::string> errors;  // of works and calls
  std::vector<std::string> violations;
  uint64_t drains = 0;
  uint64_t device_waits = 0;
  uint64_t all_reduces = 0;

  bool is_clean() const {
    return has_ended && wrong_elements == 0 && errors.empty() && violations.empty();
  }
  // Empty when clean.
  std::string describe() const;
};

HandOffRunOutcome run_hand_off(const HandOffRunOptions& options,
                               const std::shared_ptr<ProgramProver>& prover);

}  // namespace mccl
