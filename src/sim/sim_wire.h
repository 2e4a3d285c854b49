// The wire interface of a simulated node. poll() never blocks, whatever its timeout: it hands out
// what has happened up to the present moment of virtual time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mccl/wire.h"
#include "sim/network.h"

namespace mccl::sim {

class SimContext final : public WireContext {
 public:
  SimContext(Network& network, NodeIndex node) : network_(network), node_(node) {}

  std::string address() const override { return address_of(node_); }
  Result<std::unique_ptr<Wire>> connect(const std::string& address, uint64_t token) override;
  std::unique_ptr<Wire> accept(uint64_t token) override;
  void poll(int64_t timeout_ns, std::vector<WireEvent>& events) override;
  // Makes the node due for a step at the present moment. A world has one thread: so has this.
  void wake() override { network_.mark_due(node_); }

 private:
  Network& network_;
  const NodeIndex node_;
};

}  // namespace mccl::sim
