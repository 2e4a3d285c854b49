// The end of a process that shares an endpoint with another one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "mccl/communicator.h"
#include "mccl/store.h"

namespace mccl {
namespace {

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
