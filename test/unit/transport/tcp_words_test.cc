#include "transport/tcp_words.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace mccl {
namespace {

std::string connect_text(int error_number, Platform platform) {
  return connect_failure(error_number, "10.0.0.1:5000", "10.0.0.9:7000", 0, platform).to_string();
}

TEST(ConnectFailure, TellsRefusedFromUnansweredFromUnreachable) {
  EXPECT_EQ(connect_text(ECONNREFUSED, Platform::Linux),
            "network: nobody listens at tcp://10.0.0.9:7000: the process is gone or the port is "
            "another one's");
  EXPECT_EQ(connect_text(ETIMEDOUT, Platform::Linux),
            "peer lost: no answer from tcp://10.0.0.9:7000: is a firewall dropping what is sent "
            "there, or is the host down?");
  EXPECT_EQ(connect_text(ENETUNREACH, Platform::Linux),
            "network: cannot reach tcp://10.0.0.9:7000 from 10.0.0.1:5000 (" +
                std::string("Network is unreachable): no route of this host leads there; "
                            "MCCL_SOCKET_IFNAME chooses another network"));
  EXPECT_EQ(connect_text(EHOSTUNREACH, Platform::Linux),
            "network: cannot reach tcp://10.0.0.9:7000 from 10.0.0.1:5000 (No route to host): the "
            "host is down, its cable is, or MCCL_SOCKET_IFNAME has to name another network");
  EXPECT_EQ(connect_text(EPERM, Platform::Linux),
            "network: cannot reach tcp://10.0.0.9:7000 from 10.0.0.1:5000 (Operation not "
            "permitted): a firewall or a route of this host forbids it");
  EXPECT_EQ(connect_text(EMFILE, Platform::Linux),
            "network: cannot connect to tcp://10.0.0.9:7000 from 10.0.0.1:5000: Too many open "
            "files");
}

TEST(ConnectFailure, SaysForHowLongNoAnswerCame) {
  EXPECT_EQ(
      connect_failure(ETIMEDOUT, "10.0.0.1:5000", "10.0.0.9:7000", 10'020 * kNsPerMs).to_string(),
      "peer lost: no answer from tcp://10.0.0.9:7000 for 10.0 s: is a firewall dropping what "
      "is sent there, or is the host down?");
}

TEST(ConnectFailure, NamesNoAddressOfItsOwnThatTheKernelHasNotChosen) {
  EXPECT_EQ(connect_failure(EMFILE, "0.0.0.0:0", "10.0.0.9:7000", 0).to_string(),
            "network: cannot connect to tcp://10.0.0.9:7000: Too many open files");
}

TEST(ConnectFailure, SendsUsersOfMacOsToTheLocalNetworkPermission) {
  for (const int error_number : {EHOSTUNREACH, EPERM, EACCES})
    EXPECT_NE(connect_text(error_number, Platform::MacOs)
                  .find("in System Settings, Privacy & Security, Local Network"),
              std::string::npos);
  EXPECT_EQ(connect_text(ENETUNREACH, Platform::MacOs), connect_text(ENETUNREACH, Platform::Linux));
}

TEST(ConnectionFailure, IsALostPeerWhenThePeerOrItsHostIsGone) {
  const auto code = [](int error_number) {
    return connection_failure(error_number, "A -> B over tcp", 0).code();
  };
  for (const int error_number :
       {EPIPE, ECONNRESET, ECONNABORTED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN})
    EXPECT_EQ(code(error_number), StatusCode::PeerLost) << error_number;
  EXPECT_EQ(code(ENOBUFS), StatusCode::Network);
}

TEST(ConnectionFailure, SaysWhatWasSilentForHowLong) {
  EXPECT_EQ(connection_failure(ECONNRESET, "A -> B over tcp", 0).to_string(),
            "peer lost: A -> B over tcp: Connection reset by peer");
  EXPECT_EQ(connection_failure(ETIMEDOUT, "A -> B over tcp", 10'240 * kNsPerMs).to_string(),
            "peer lost: A -> B over tcp: the peer's host has not answered for 10.2 s (Connection "
            "timed out): see whether it is up and its network connected; MCCL_PEER_TIMEOUT says "
            "how long to wait");
}

}  // namespace
}  // namespace mccl
