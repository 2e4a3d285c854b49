// What an endpoint is made of: settings, wires, the engine and its driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "comm/bootstrap.h"
#include "comm/driver.h"
#include "comm/engine.h"
#include "comm/program_prover.h"
#include "device/cpu_device.h"
#include "mccl/communicator.h"

namespace mccl {

class EndpointCore {
 public:
  // Over TCP, with a thread of its own.
  static Result<std::unique_ptr<EndpointCore>> create(const EndpointOptions& options);

  // For the simulator: wires and clock are the world's, nobody drives but step(). `process_id`
  // is given, so that a run repeats.
  static std::unique_ptr<EndpointCore> create_passive(WireContext& wires, const Clock& clock,
                                                      const Config& config, uint64_t process_id);
  ~EndpointCore();
  EndpointCore(const EndpointCore&) = delete;
  EndpointCore& operator=(const EndpointCore&) = delete;

  // Does all that is possible now. For passive endpoints.
  void step();

  const Config& config() const { return config_; }
  const Logger& logger() const { return logger_; }
  Engine& engine() { return *engine_; }
  Driver& driver() { return *driver_; }
  ProgramProver& prover() { return prover_; }
  const Device& device() const { return device_; }
  const RankRecord& record() const { return record_; }
  // "lo 127.0.0.1"
  const std::string& interface_text() const { return interface_text_; }
  // False in a forked child, which shares descriptors with its parent and must not use them.
  bool is_own_process() const;
  // True once, for the caller that prints the start-up line.
  bool take_start_up_line();
  // 0, 1, 2, ...: tells apart the communicators that this process leads.
  uint64_t take_communicator_number() { return communicator_count_++; }

 private:
  EndpointCore(const Config& config, std::unique_ptr<Clock> clock,
               std::unique_ptr<WireContext> wires);
  void start(WireContext& wires, const Clock& clock, uint64_t process_id, uint64_t token,
             bool has_thread);

  Config config_;
  Logger logger_;
  CpuDevice device_;
  std::unique_ptr<Clock> own_clock_;
  std::unique_ptr<WireContext> own_wires_;
  WireContext* wires_ = nullptr;
  RankRecord record_;
  std::string interface_text_;
  bool has_start_up_line_ = true;
  uint64_t communicator_count_ = 0;
  ProgramProver prover_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Driver> driver_;  // last: its thread stops first
};

}  // namespace mccl
