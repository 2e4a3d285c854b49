// A rank is interrupted in the moment in which rank 0 publishes the agreement: over real sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "mccl/communicator.h"
#include "mccl/store.h"

namespace mccl {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// Over another store; `before_blob` runs before this rank sets a meeting's blob.
class BlobStore final : public Store {
 public:
  BlobStore(Store& store, std::function<void()> before_blob)
      : store_(store), before_blob_(std::move(before_blob)) {}
  Status set(const std::string& key, const std::string& value) override {
    if (key.ends_with("/blob")) before_blob_();
    return store_.set(key, value);
  }
  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override {
    return store_.get(key, timeout_ns);
  }

 private:
  Store& store_;
  std::function<void()> before_blob_;
};

TEST(RendezvousRace, AGroupThatWasFormedWithoutARankFailsAtItsFirstCall) {
  EndpointOptions options;
  options.settings = {{"MCCL_SOCKET_IFNAME", "=lo"}};
  const std::unique_ptr<Endpoint> first = Endpoint::create(options).value();
  const std::unique_ptr<Endpoint> second = Endpoint::create(options).value();
  const std::shared_ptr<Store> store = make_memory_store();

  // Rank 0 is about to publish; rank 1 is interrupted, finds no blob and is about to say why it
  // gives up; rank 0 publishes; rank 1 says it.
  std::atomic<bool> is_interrupted{false};
  std::promise<void> has_given_up, has_published;
  BlobStore store_of_first(*store, [&] {
    is_interrupted = true;
    has_given_up.get_future().wait();
  });
  BlobStore store_of_second(*store, [&] {
    has_given_up.set_value();
    has_published.get_future().wait();
  });
  CommunicatorOptions limits;
  limits.timeout_ns = 60 * kNsPerSecond;
  CommunicatorOptions interrupted = limits;
  interrupted.interrupted = [&] { return is_interrupted.load(); };
  auto gives_up = std::async(std::launch::async, [&] {
    return Communicator::create(*second, store_of_second, 1, 2, interrupted).status();
  });
  const Result<std::unique_ptr<Communicator>> group =
      Communicator::create(*first, store_of_first, 0, 2, limits);
  has_published.set_value();
  EXPECT_EQ(gives_up.get().to_string(), "aborted: the rendezvous was interrupted");

  ASSERT_EQ(group.status().to_string(), "ok");
  CallOptions call;
  call.timeout_ns = 10 * kNsPerSecond;
  const Result<std::shared_ptr<Work>> work = group.value()->barrier(call);
  const Status status = work.is_ok() ? work.value()->wait() : work.status();
  EXPECT_EQ(status.code(), StatusCode::Aborted) << status.to_string();
  EXPECT_TRUE(status.message().starts_with("rank 1 (host ")) << status.to_string();
  EXPECT_TRUE(status.message().ends_with("): the rendezvous was interrupted"))
      << status.to_string();
}

}  // namespace
}  // namespace mccl
