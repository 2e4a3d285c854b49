// What a failure of TCP means to somebody who has to do something about it. Pure: the error number
// and both ends come in, a Status comes out.
#pragma once

#include <string>

#include "base/clock.h"
#include "mccl/status.h"

namespace mccl {

enum class Platform { Linux, MacOs };

#if defined(__APPLE__)
constexpr Platform kPlatform = Platform::MacOs;
#else
constexpr Platform kPlatform = Platform::Linux;
#endif

// `local` and `peer` are "192.168.1.7:40112". Refused, no answer and unreachable are told apart.
// `waited_ns` is for how long an answer was missing, 0 when that is not known.
Status connect_failure(int error_number, const std::string& local, const std::string& peer,
                       TimeNs waited_ns, Platform platform = kPlatform);

// Of an established connection, `wire` is Wire::describe(). PeerLost when the peer or its host is
// gone, else Network. `silent_ns` is for how long the host was not heard.
Status connection_failure(int error_number, const std::string& wire, TimeNs silent_ns);

}  // namespace mccl
