// Simulated wires: as delivered by default, cut into random segments that come late, a byte at a
// time through a small queue, and captured as late as may be.
#include "conformance/wire_world.h"
#include "sim/world.h"

namespace mccl {
namespace {

class SimWireWorld final : public WireWorld {
 public:
  SimWireWorld(const sim::WorldOptions& options, size_t bulk_bytes, size_t context_count)
      : world_(options), bulk_bytes_(bulk_bytes) {
    for (size_t index = 0; index < context_count; ++index) {
      world_.add_node([this] {
        if (step_ && !is_done_) is_done_ = step_();
      });
    }
  }

  WireContext& context(size_t index) override { return world_.wires(static_cast<int>(index)); }

  bool advance_until(const std::function<bool()>& step) override {
    step_ = step;
    is_done_ = step();
    const bool result = world_.run([this] { return is_done_; });
    step_ = nullptr;
    return result;
  }

  std::string dead_address() override { return "sim://4000000"; }
  bool can_block() const override { return false; }
  bool close_delivers() const override { return false; }
  size_t bulk_bytes() const override { return bulk_bytes_; }

 private:
  sim::World world_;
  const size_t bulk_bytes_;
  std::function<bool()> step_;
  bool is_done_ = false;
};

WireKind sim_kind(const std::string& name, const sim::WorldOptions& options, size_t bulk_bytes) {
  return {name, [options, bulk_bytes](size_t context_count) {
            return std::make_unique<SimWireWorld>(options, bulk_bytes, context_count);
          }};
}

WireKind jittery_kind() {
  sim::WorldOptions options;
  options.latency_jitter = 3;
  options.segment_bytes_min = 1;
  return sim_kind("jittery", options, size_t{16} << 20);
}

WireKind byte_kind() {
  sim::WorldOptions options;
  options.segment_bytes_min = options.segment_bytes_max = 1;
  options.queue_bytes_max = 1'000;
  return sim_kind("byte_at_a_time", options, size_t{128} << 10);
}

WireKind late_kind() {
  sim::WorldOptions options;
  options.reads_late = true;
  options.latency_jitter = 1;
  options.segment_bytes_min = 1;
  return sim_kind("reads_late", options, size_t{16} << 20);
}

INSTANTIATE_TEST_SUITE_P(Sim, WireTest,
                         ::testing::Values(sim_kind("plain", {}, size_t{64} << 20), jittery_kind(),
                                           byte_kind(), late_kind()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace mccl
