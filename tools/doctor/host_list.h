// Who takes part in `mccl doctor --hosts`, and which of them is this host.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mccl/status.h"
#include "transport/interfaces.h"

namespace mccl {

struct DoctorHost {
  std::string name;     // as --hosts has it
  std::string address;  // numeric, as it is known here

  bool operator==(const DoctorHost&) const = default;
};

// "10.0.0.1,10.0.0.2", "a,b,[fd00::1]": 2 to 64 names, none twice. InvalidArgument says what is
// wrong.
Result<std::vector<std::string>> parse_host_list(const std::string& text);

// The numeric address of a name, or why there is none. May block as the system's resolver does.
Result<std::string> resolve_host(const std::string& name);

using Resolver = std::function<Result<std::string>(const std::string& name)>;

// The same hosts with their addresses. InvalidArgument when two are one, or what `resolve` says.
Result<std::vector<DoctorHost>> resolve_hosts(const std::vector<std::string>& names,
                                              const Resolver& resolve);

// Which of `hosts` this one is: `self` (--self) when given, else the one whose address is of
// `interfaces` or loopback. InvalidArgument when that is none or more than one.
Result<size_t> find_self(const std::vector<DoctorHost>& hosts,
                         const std::vector<InterfaceAddress>& interfaces, const std::string& self);

// Where this host listens: its own address, or, when its name means loopback here and another
// host's does not, the address that routes there; `note` then says so.
struct ListenPlace {
  std::string address;
  std::string note;
};
Result<ListenPlace> choose_listen_place(const std::vector<DoctorHost>& hosts, size_t self,
                                        const std::vector<InterfaceAddress>& interfaces);

bool is_loopback_address(const std::string& address);

}  // namespace mccl
