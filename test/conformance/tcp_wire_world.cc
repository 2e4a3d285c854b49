// TCP over loopback, IPv4 and IPv6.
#include "base/check.h"
#include "base/clock.h"
#include "conformance/wire_world.h"
#include "transport/socket.h"
#include "transport/tcp_wire.h"

namespace mccl {
namespace {

// Only a test that fails waits as long.
constexpr TimeNs kStuckNs = 60 * kNsPerSecond;

class TcpWireWorld final : public WireWorld {
 public:
  TcpWireWorld(const std::string& listen_address, size_t context_count) {
    TcpOptions options;
    options.listen_address = listen_address;
    for (size_t index = 0; index < context_count; ++index) {
      Result<std::unique_ptr<WireContext>> context = make_tcp_context(options);
      MCCL_CHECK_EQ(context.status().to_string(), "ok");
      contexts_.push_back(std::move(context).value());
    }
    // Bound and not listening: nobody else can get the port meanwhile.
    const SocketAddress any_port = parse_host(listen_address, 0).value();
    dead_ = make_stream_socket(any_port.family());
    MCCL_CHECK_EQ(::bind(dead_.number(), any_port.raw(), any_port.length_bytes), 0);
  }

  WireContext& context(size_t index) override { return *contexts_.at(index); }

  bool advance_until(const std::function<bool()>& step) override {
    const TimeNs deadline = clock_.now() + kStuckNs;
    while (!step())
      if (clock_.now() > deadline) return false;
    return true;
  }

  std::string dead_address() override {
    return "tcp://" + to_string(local_address(dead_.number()));
  }
  bool can_block() const override { return true; }
  bool close_delivers() const override { return true; }
  size_t bulk_bytes() const override { return size_t{64} << 20; }

 private:
  SystemClock clock_;
  std::vector<std::unique_ptr<WireContext>> contexts_;
  FileDescriptor dead_;
};

WireKind tcp_kind(const std::string& name, const std::string& listen_address) {
  return {name, [listen_address](size_t context_count) {
            return std::make_unique<TcpWireWorld>(listen_address, context_count);
          }};
}

INSTANTIATE_TEST_SUITE_P(Tcp, WireTest,
                         ::testing::Values(tcp_kind("ipv4", "127.0.0.1"), tcp_kind("ipv6", "::1")),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace mccl
