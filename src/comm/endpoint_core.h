// What an endpoint is made of: settings, wires, the engine and its driver.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "comm/bootstrap.h"
#include "comm/driver.h"
#include "comm/dump.h"
#include "comm/dump_thread.h"
#include "comm/engine.h"
#include "comm/program_library.h"
#include "comm/program_prover.h"
#include "device/cpu_device.h"
#include "mccl/communicator.h"
#include "planner/link_profile.h"
#include "runtime/step_observer.h"

namespace mccl {

// How much of a chunk is one slice and how much of it may be in the air (law L1).
struct PlanPortions {
  int64_t slice_bytes = 0;   // a multiple of 64
  int64_t window_bytes = 0;  // at most slice_bytes: one instance
};

class EndpointCore {
 public:
  // Over TCP, with a thread of its own.
  static Result<std::unique_ptr<EndpointCore>> create(const EndpointOptions& options);

  // For the simulator: wires and clock are the world's, nobody drives but step(). `process_id`
  // is given, so that a run repeats. Endpoints of one thread may share a prover, so that hundreds
  // of simulated ranks prove a program once; null: its own. The same for the library of programs
  // from files. `log` empty: standard error.
  static std::unique_ptr<EndpointCore> create_passive(
      WireContext& wires, const Clock& clock, const Config& config, uint64_t process_id,
      std::shared_ptr<ProgramProver> prover = nullptr, Logger::Sink log = {},
      std::shared_ptr<ProgramLibrary> library = nullptr);
  ~EndpointCore();
  EndpointCore(const EndpointCore&) = delete;
  EndpointCore& operator=(const EndpointCore&) = delete;

  // Communicators that this endpoint leads as rank 0 and that meet later use these portions for
  // every plan instead of those of the link's profile. For tests: many slices from little data.
  void override_portions(const PlanPortions& portions) { portions_ = portions; }
  const std::optional<PlanPortions>& portions() const { return portions_; }
  // Likewise the costs of the link that rank 0 plans by.
  void override_costs(const LinkCosts& costs) { costs_ = costs; }
  const std::optional<LinkCosts>& costs() const { return costs_; }
  // Every call of its collective runs this program instead of the plan's, in the plan's portions.
  // On all endpoints or on none. For simulations of programs that are not in the catalogue.
  void override_program(std::shared_ptr<const ProvenProgram> program) {
    program_ = std::move(program);
  }
  const std::shared_ptr<const ProvenProgram>& program() const { return program_; }
  // Communicators that meet later tell `observer` about their steps; it outlives the endpoint.
  void observe_steps(StepObserver* observer) { step_observer_ = observer; }
  StepObserver* step_observer() const { return step_observer_; }

  // Does all that is possible now; returns the next deadline. For passive endpoints.
  TimeNs step();

  const Config& config() const { return config_; }
  const Logger& logger() const { return logger_; }
  Engine& engine() { return *engine_; }
  Driver& driver() { return *driver_; }
  ProgramProver& prover() { return *prover_; }
  const ProgramLibrary& library() const { return *library_; }
  // ProgramLibrary::prove(); what it warns of is logged. Blocks.
  Status prove_programs(int rank_count);
  const Device& device() const { return device_; }
  const RankRecord& record() const { return record_; }
  // "lo 127.0.0.1"
  const std::string& interface_text() const { return interface_text_; }
  // Null for a passive endpoint.
  WireContext* own_wires() { return own_wires_.get(); }
  // Whether nobody drives but step().
  bool is_passive() const { return own_wires_ == nullptr; }
  // False in a forked child, which shares descriptors with its parent and must not use them.
  bool is_own_process() const;
  // True once, for the caller that prints the start-up line.
  bool take_start_up_line();
  // With the engine held: the communicators that dumps show.
  void enter(CommunicatorCore& communicator) { communicators_.push_back(&communicator); }
  void leave(CommunicatorCore& communicator);
  // What all communicators have done last. Any thread, takes the engine. `cause`: ProcessDump's.
  ProcessDump make_dump(const std::string& cause);
  // Writes it to `path`, else where MCCL_DUMP_DIR says; the path. Blocks on the file.
  Result<std::string> write_dump(const std::string& path);

  // 0, 1, 2, ...: tells apart the communicators that this process leads.
  uint64_t take_communicator_number() { return communicator_count_++; }

 private:
  EndpointCore(const Config& config, std::unique_ptr<Clock> clock,
               std::unique_ptr<WireContext> wires);
  void start(WireContext& wires, const Clock& clock, uint64_t process_id, uint64_t token,
             bool has_thread);
  void start_dumps();
  ProcessDump dump_held(const std::string& cause) const;
  void tell_of_failures();

  Config config_;
  Logger logger_;
  CpuDevice device_;
  std::unique_ptr<Clock> own_clock_;
  std::unique_ptr<WireContext> own_wires_;
  WireContext* wires_ = nullptr;
  RankRecord record_;
  std::string interface_text_;
  std::optional<PlanPortions> portions_;
  std::optional<LinkCosts> costs_;
  std::shared_ptr<const ProvenProgram> program_;
  StepObserver* step_observer_ = nullptr;
  bool has_start_up_line_ = true;
  uint64_t communicator_count_ = 0;
  std::vector<CommunicatorCore*> communicators_;
  std::mutex dump_mutex_;                    // one dump is written at a time
  std::shared_ptr<ProgramLibrary> library_;  // shared: simulated ranks of one thread have one
  std::shared_ptr<ProgramProver> prover_ = std::make_shared<ProgramProver>();
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Driver> driver_;     // its thread stops before the engine
  std::unique_ptr<DumpThread> dumps_;  // last: it takes the engine; null: nothing is written
};

}  // namespace mccl
