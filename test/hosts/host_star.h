// Hosts at one switch, each a network namespace (host_pair.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hosts/host_pair.h"

namespace mccl {

class HostStar {
 public:
  explicit HostStar(int host_count);

  std::string refusal() const;
  Host& host(size_t index) { return *hosts_[index]; }
  Host& network() { return switch_; }  // whose ports are "port0", "port1", ...

  // "10.213.94.1" for the first host, of its interface eth0.
  static std::string address(size_t index) { return "10.213.94." + std::to_string(index + 1); }

 private:
  Host switch_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace mccl
