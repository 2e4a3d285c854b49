// Which of this host's addresses peers should use.
#pragma once

#include <string>
#include <vector>

#include "mccl/status.h"

namespace mccl {

struct InterfaceAddress {
  std::string name;     // "eth0"
  std::string address;  // numeric, without scope
  bool is_loopback = false;
  bool is_ipv6 = false;
  bool is_up = true;
  int prefix_length = 0;
};

// Every address of every interface that is up, in the kernel's order.
Result<std::vector<InterfaceAddress>> list_interfaces();

// Applies MCCL_SOCKET_IFNAME: a comma list of names (prefix match as in NCCL), globs, `=exact` (a
// leading = holds for the whole list, as in NCCL), `^exclude` (leading ^ inverts the whole list),
// addresses and CIDR blocks. The first item of a list that matches decides. With "", or among what
// an exclusion leaves, it chooses by itself: the address that routes to `master_address` (the
// rendezvous host, numeric or a name) if given and not loopback, else the first non-loopback
// non-virtual IPv4, IPv6 next (docker*, veth*, virbr*, br-* come last), else loopback. Resolving a
// name may block. InvalidArgument names the pattern and lists what the host has.
Result<InterfaceAddress> choose_interface(const std::vector<InterfaceAddress>& interfaces,
                                          const std::string& pattern,
                                          const std::string& master_address);

}  // namespace mccl
