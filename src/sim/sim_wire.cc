#include "sim/sim_wire.h"

namespace mccl::sim {
namespace {

class SimWire final : public Wire {
 public:
  SimWire(Network& network, EndIndex end) : network_(network), end_(end) {
    network_.count_wires(+1);
  }
  ~SimWire() override {
    network_.close(end_);
    network_.count_wires(-1);
  }
  SimWire(const SimWire&) = delete;
  SimWire& operator=(const SimWire&) = delete;

  Result<size_t> write(std::span<const iovec> pieces) override {
    return network_.write(end_, pieces);
  }
  Result<size_t> read(std::span<const iovec> pieces) override {
    return network_.read(end_, pieces);
  }
  Status check_peer(int64_t /*now_ns*/) override { return network_.check_peer(end_); }
  void close() override { network_.close(end_); }
  std::string describe() const override { return network_.describe(end_); }
  std::string peer_host() const override { return network_.peer_address(end_); }

 private:
  Network& network_;
  const EndIndex end_;
};

}  // namespace

Result<std::unique_ptr<Wire>> SimContext::connect(const std::string& address, uint64_t token) {
  Result<EndIndex> end = network_.connect(node_, address, token);
  if (!end.is_ok()) return end.status();
  return std::unique_ptr<Wire>(std::make_unique<SimWire>(network_, end.value()));
}

std::unique_ptr<Wire> SimContext::accept(uint64_t token) {
  const std::optional<EndIndex> end = network_.accept(node_, token);
  return end ? std::make_unique<SimWire>(network_, *end) : nullptr;
}

void SimContext::poll(int64_t /*timeout_ns*/, std::vector<WireEvent>& events) {
  network_.poll(node_, events);
}

}  // namespace mccl::sim
