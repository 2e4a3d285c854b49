#include "doctor/pair_result.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace mccl {
namespace {

constexpr std::array<std::string_view, 9> kOutcomeNames = {"not measured", "ok",          "refused",
                                                           "dropped",      "unreachable", "denied",
                                                           "stalled",      "broken",      "failed"};
constexpr std::array<std::string_view, 6> kKindNames = {"lan",       "wi-fi",  "thunderbolt",
                                                        "container", "tunnel", "loopback"};

struct NamePrefix {
  std::string_view prefix;
  InterfaceKind kind;
};

// The first match decides.
constexpr std::array kPrefixes = {NamePrefix{"tun", InterfaceKind::Tunnel},
                                  NamePrefix{"tap", InterfaceKind::Tunnel},
                                  NamePrefix{"utun", InterfaceKind::Tunnel},
                                  NamePrefix{"wg", InterfaceKind::Tunnel},
                                  NamePrefix{"zt", InterfaceKind::Tunnel},
                                  NamePrefix{"feth", InterfaceKind::Tunnel},
                                  NamePrefix{"tailscale", InterfaceKind::Tunnel},
                                  NamePrefix{"ppp", InterfaceKind::Tunnel},
                                  NamePrefix{"ipsec", InterfaceKind::Tunnel},
                                  NamePrefix{"gif", InterfaceKind::Tunnel},
                                  NamePrefix{"gre", InterfaceKind::Tunnel},
                                  NamePrefix{"sit", InterfaceKind::Tunnel},
                                  NamePrefix{"vxlan", InterfaceKind::Tunnel},
                                  NamePrefix{"docker", InterfaceKind::Container},
                                  NamePrefix{"veth", InterfaceKind::Container},
                                  NamePrefix{"virbr", InterfaceKind::Container},
                                  NamePrefix{"br-", InterfaceKind::Container},
                                  NamePrefix{"cni", InterfaceKind::Container},
                                  NamePrefix{"flannel", InterfaceKind::Tunnel},
                                  NamePrefix{"cali", InterfaceKind::Container},
                                  NamePrefix{"vmnet", InterfaceKind::Container},
                                  NamePrefix{"bridge1", InterfaceKind::Container},
                                  NamePrefix{"wl", InterfaceKind::WiFi},
                                  NamePrefix{"awdl", InterfaceKind::WiFi},
                                  NamePrefix{"ath", InterfaceKind::WiFi},
                                  NamePrefix{"bridge0", InterfaceKind::Thunderbolt},
                                  NamePrefix{"thunderbolt", InterfaceKind::Thunderbolt}};

bool is_loopback_name(std::string_view name) {
  return name == "lo" ||
         (name.size() == 3 && name.starts_with("lo") && name[2] >= '0' && name[2] <= '9');
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  return kOutcomeNames[static_cast<size_t>(outcome)];
}

std::optional<Outcome> find_outcome(std::string_view name) {
  const auto found = std::find(kOutcomeNames.begin(), kOutcomeNames.end(), name);
  if (found == kOutcomeNames.end()) return std::nullopt;
  return static_cast<Outcome>(found - kOutcomeNames.begin());
}

Outcome outcome_of_error(int error_number) {
  switch (error_number) {
    case ECONNREFUSED:
      return Outcome::Refused;
    case ETIMEDOUT:
      return Outcome::Dropped;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      return Outcome::Unreachable;
    case EPERM:
    case EACCES:
      return Outcome::Denied;
    default:
      return Outcome::Failed;
  }
}

InterfaceKind interface_kind(std::string_view name) {
  if (is_loopback_name(name)) return InterfaceKind::Loopback;
  for (const NamePrefix& row : kPrefixes)
    if (name.starts_with(row.prefix)) return row.kind;
  return InterfaceKind::Lan;
}

std::string_view interface_kind_name(InterfaceKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

std::string host_of(std::string_view address) {
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() >= 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return std::string(host);
}

}  // namespace mccl
