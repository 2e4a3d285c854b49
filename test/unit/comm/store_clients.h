// Servers, clients and strangers of the TCP store, for its tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/store_message.h"
#include "mccl/rendezvous.h"
#include "transport/socket.h"

namespace mccl {

constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kLongNs = 60'000 * kMsNs;

inline std::unique_ptr<StoreServer> make_server() {
  Result<std::unique_ptr<StoreServer>> server = StoreServer::create("127.0.0.1", 0);
  EXPECT_TRUE(server.is_ok()) << server.status().to_string();
  return std::move(server).value();
}

inline std::shared_ptr<Store> connect_to(const StoreServer& server) {
  Result<std::shared_ptr<Store>> store = make_tcp_store("127.0.0.1", server.port(), false, kLongNs);
  EXPECT_TRUE(store.is_ok()) << store.status().to_string();
  return std::move(store).value();
}

inline std::optional<std::string> get_value(Store& store, const std::string& key,
                                            int64_t timeout_ns) {
  Result<std::optional<std::string>> value = store.get(key, timeout_ns);
  EXPECT_TRUE(value.is_ok()) << value.status().to_string();
  return value.is_ok() ? value.value() : std::nullopt;
}

inline std::string bytes_of(const StoreRequestHeader& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof header);
}

// A client in bad faith: blocking, no rules.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const SocketAddress address = parse_host("127.0.0.1", static_cast<uint16_t>(port)).value();
    EXPECT_EQ(::connect(socket_.number(), address.raw(), address.length_bytes), 0);
    // A server that does not close is a failure, not a test without end.
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void send(const std::string& bytes) {
    EXPECT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  bool is_closed() {
    char byte = 0;
    return ::recv(socket_.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  }
  // One request and its answer, so that the server has accepted the connection.
  void ask() {
    send(bytes_of(StoreRequestHeader{}));
    StoreAnswerHeader answer;
    EXPECT_EQ(::recv(socket_.number(), &answer, sizeof answer, MSG_WAITALL),
              static_cast<ssize_t>(sizeof answer));
  }
  int port() const { return local_address(socket_.number()).port(); }
  // Everything until the server closes the connection; a reset ends it, too.
  std::string read_to_end() {
    std::string all;
    std::array<char, 4096> part;
    for (;;) {
      const ssize_t count = ::recv(socket_.number(), part.data(), part.size(), 0);
      EXPECT_TRUE(count >= 0 || errno == ECONNRESET) << error_text(errno);
      if (count <= 0) return all;
      all.append(part.data(), static_cast<size_t>(count));
    }
  }

 private:
  FileDescriptor socket_;
};

}  // namespace mccl
