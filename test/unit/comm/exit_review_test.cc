// The end of a process, or of a rank in it, over real sockets.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "comm/communicator_core.h"
#include "mccl/communicator.h"
#include "mccl/store.h"
#include "transport/tcp_wire.h"

namespace mccl {
namespace {

// Two ranks that take steps only when they are told to, over TCP on loopback.
struct SteppedPair {
  SteppedPair() {
    std::vector<CommunicatorCore::Rendezvous> rendezvous;
    for (int rank = 0; rank < 2; ++rank) {
      TcpOptions options;
      options.listen_address = "127.0.0.1";
      options.socket_buffer_bytes = 64 * 1024;
      wires.push_back(make_tcp_context(options).value());
      endpoints.push_back(std::make_unique<Endpoint>(
          EndpointCore::create_passive(*wires.back(), clock, parse_config({}, nullptr).value(),
                                       static_cast<uint64_t>(rank) + 1)));
      rendezvous.push_back(
          CommunicatorCore::publish(endpoints.back()->core(), *store, rank, 2,
                                    {.name = "pair", .timeout_ns = 0, .interrupted = {}})
              .value());
    }
    for (CommunicatorCore::Rendezvous& one : rendezvous)
      communicators.push_back(
          std::make_unique<Communicator>(CommunicatorCore::finish(one).value()));
  }
  void step(int rank) { endpoints[static_cast<size_t>(rank)]->core().step(); }

  SystemClock clock;
  std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::unique_ptr<WireContext>> wires;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

TEST(ExitReview, ARankThatIsDoneAndGoesDoesNotTakeItsLastBytesAlong) {
  SteppedPair pair;
  constexpr int64_t kCount = 1'000'000;
  std::vector<float> sent(kCount, 3), received(kCount, 0);
  const std::shared_ptr<Work> there =
      pair.communicators[0]->broadcast(sent.data(), kCount, DataType::Float32, 0).value();
  const std::shared_ptr<Work> here =
      pair.communicators[1]->broadcast(received.data(), kCount, DataType::Float32, 0).value();
  while (!there->is_done()) {
    pair.step(1);
    pair.step(0);
  }
  pair.step(1);
  ASSERT_EQ(there->status().to_string(), "ok");
  pair.communicators[0].reset();
  pair.endpoints[0].reset();
  for (int round = 0; round < 1'000'000 && !here->is_done(); ++round) pair.step(1);
  EXPECT_EQ(here->status().to_string(), "ok");
  EXPECT_EQ(received.back(), 3);
}

TEST(ExitReview, AForkedChildLeavesTheEndpointOfItsParentAlone) {
  EndpointOptions options;
  options.settings = {{"MCCL_SOCKET_IFNAME", "=lo"}};
  const std::shared_ptr<Store> store = make_memory_store();
  std::unique_ptr<Endpoint> endpoint = Endpoint::create(options).value();
  std::unique_ptr<Communicator> communicator =
      Communicator::create(*endpoint, *store, 0, 1, {}).value();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);  // a child that hangs dies by it
    communicator.reset();
    endpoint.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
}

}  // namespace
}  // namespace mccl
