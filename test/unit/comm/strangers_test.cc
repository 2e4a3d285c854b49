// Ten thousand connections of strangers to an endpoint that works: over real sockets, while two
// ranks add up. Every one is counted under its reason, each address is told once, and the results
// are exact.
#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "comm/endpoint_core.h"
#include "mccl/communicator.h"
#include "mccl/store.h"

namespace mccl {
namespace {

constexpr int kConnections = 10'000;
constexpr const char* kSecret = "open sesame";

// A blocking socket to an endpoint on loopback.
class Caller {
 public:
  explicit Caller(const std::string& address, const char* from = "127.0.0.1")
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{}, peer{};
    own.sin_family = peer.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &own.sin_addr);
    ::inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
    peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    is_connected_ = ::bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0 &&
                    ::connect(socket_, reinterpret_cast<sockaddr*>(&peer), sizeof peer) == 0;
  }
  ~Caller() { ::close(socket_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  bool is_connected() const { return is_connected_; }
  // The endpoint may have turned us away already.
  template <typename Value>
  void send(const Value& value, size_t bytes = sizeof(Value)) {
    (void)!::send(socket_, &value, bytes, MSG_NOSIGNAL);
  }
  template <typename Value>
  bool receive(Value* value) {
    return ::recv(socket_, value, sizeof(Value), MSG_WAITALL) == ssize_t{sizeof(Value)};
  }
  void wait_until_closed() {
    char byte = 0;
    while (::recv(socket_, &byte, 1, 0) > 0) {
    }
  }

 private:
  int socket_;
  bool is_connected_ = false;
};

// What strangers do to an endpoint, one connection each.
class Flood {
 public:
  explicit Flood(const PeerAddress& target) : target_(target), nonces_(seeded_nonces(5)) {}

  // A process of the job by every sign, whose handshake is recorded. Its link stays.
  bool record() {
    Caller caller(target_.address);
    hello_ = make_hello();
    caller.send(hello_);
    Answer answer;
    if (!caller.is_connected() || !caller.receive(&answer)) return false;
    const Mac key = authenticator_.make_key(kSecret, target_.token);
    if (answer.mac != authenticator_.prove_acceptor(key, hello_, answer.hello)) return false;
    proof_.mac = authenticator_.prove_connector(key, hello_, answer.hello);
    caller.send(proof_);
    caller.send(FrameHeader{.magic = 0});  // what follows is read, so it is proven; this ends it
    caller.wait_until_closed();
    return true;
  }

  bool connect(int kind) {
    // Of one kind from another address.
    Caller caller(target_.address, kind == 0 ? "127.0.0.2" : "127.0.0.1");
    if (!caller.is_connected()) return false;
    switch (kind) {
      case 0:
        return throw_random_bytes(caller);
      case 1:
        caller.send(FrameHeader{.payload_bytes = UINT32_MAX, .message_bytes = UINT32_MAX});
        ++expected_[index(Refusal::RandomBytes)];
        break;
      case 2:
        caller.send(Hello{.version = 1, .from = 3, .to = target_.process_id});
        ++expected_[index(Refusal::WrongVersion)];
        break;
      case 3:
        caller.send(Hello{.from = 3, .to = target_.process_id + 1});
        ++expected_[index(Refusal::WrongId)];
        break;
      case 4:
        return guess_the_proof(caller);
      case 5:
        return greet_slowly(caller);
      case 6:
        caller.send(hello_);
        caller.send(proof_);
        ++expected_[index(Refusal::Duplicate)];
        break;
      default:
        ++expected_[index(Refusal::ClosedEarly)];
        return true;  // not a word
    }
    caller.wait_until_closed();
    return true;
  }

  bool is_all_counted(const Refusals& refusals) const {
    for (size_t reason = 0; reason < kRefusalCount; ++reason)
      if (refusals.count(static_cast<Refusal>(reason)) < expected_[reason]) return false;
    return true;
  }
  const std::array<uint64_t, kRefusalCount>& expected() const { return expected_; }

 private:
  static size_t index(Refusal refusal) { return static_cast<size_t>(refusal); }
  Hello make_hello() { return {.from = 0x5eed, .to = target_.process_id, .nonce = nonces_()}; }

  bool throw_random_bytes(Caller& caller) {
    std::array<uint64_t, 16> bytes;
    for (uint64_t& word : bytes) word = prng_.next();
    caller.send(bytes, 1 + prng_.below(sizeof bytes));
    if ((bytes[0] & 0xff) == (kHelloMagic & 0xff)) caller.send(bytes);  // one byte was not enough
    ++expected_[index(Refusal::RandomBytes)];
    caller.wait_until_closed();
    return true;
  }

  bool guess_the_proof(Caller& caller) {
    Hello hello = make_hello();
    hello.from = 0xbad;
    caller.send(hello);
    Answer answer;
    if (!caller.receive(&answer)) return false;
    caller.send(ConnectorProof{.mac = answer.mac});
    ++expected_[index(Refusal::BadMac)];
    caller.wait_until_closed();
    return true;
  }

  bool greet_slowly(Caller& caller) {
    Hello hello = make_hello();
    hello.from = 0x510e;
    for (size_t byte = 0; byte < sizeof hello; ++byte)
      caller.send(reinterpret_cast<const std::byte*>(&hello)[byte]);
    Answer answer;
    if (!caller.receive(&answer)) return false;
    ++expected_[index(Refusal::ClosedEarly)];
    return true;
  }

  PeerAddress target_;
  NonceSource nonces_;
  Authenticator authenticator_;
  Prng prng_{11};
  Hello hello_;
  ConnectorProof proof_;
  std::array<uint64_t, kRefusalCount> expected_{};
};

// Two ranks of one process, one thread each, that add up until told to stop.
class Job {
 public:
  Job() : store_(make_memory_store()) {
    EndpointOptions options;
    options.settings = {{"MCCL_SOCKET_IFNAME", "=lo"}, {"MCCL_SECRET", kSecret}};
    for (auto& endpoint : endpoints_) endpoint = Endpoint::create(options).value();
    for (int rank = 0; rank < 2; ++rank) threads_[rank] = std::thread([this, rank] { run(rank); });
  }
  ~Job() { stop(); }

  void stop() {
    is_stopping_ = true;
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }
  EndpointCore& endpoint(int rank) { return endpoints_[rank]->core(); }
  int calls() const { return calls_; }
  const std::string& failure(int rank) const { return failures_[rank]; }

  // Whether `condition` of the engine of rank 0 comes to hold; it is looked at between its passes.
  bool wait_for(const std::function<bool(Transport&)>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    bool is_met = false;
    while (!is_met && std::chrono::steady_clock::now() < until)
      endpoint(0).driver().with_engine(
          [&] { is_met = condition(endpoint(0).engine().transport()); }, true);
    return is_met;
  }

 private:
  void run(int rank) {
    auto communicator = Communicator::create(*endpoints_[rank], *store_, rank, 2, {});
    if (!communicator.is_ok()) {
      failures_[rank] = communicator.status().to_string();
      return;
    }
    // The last element tells both that it is over.
    std::vector<int32_t> data(1'000);
    for (int call = 0; data.back() == 0 && failures_[rank].empty(); ++call) {
      for (size_t element = 0; element + 1 < data.size(); ++element)
        data[element] = call + (rank + 1) * static_cast<int32_t>(element);
      data.back() = rank == 0 && is_stopping_ ? 1 : 0;
      const Status status = communicator.value()
                                ->all_reduce(data.data(), data.data(), 1'000, DataType::Int32,
                                             ReduceOp::Sum, {.will_wait = true})
                                .value()
                                ->wait();
      if (!status.is_ok()) failures_[rank] = status.to_string();
      for (size_t element = 0; element + 1 < data.size(); ++element)
        if (data[element] != 2 * call + 3 * static_cast<int32_t>(element))
          failures_[rank] = "a wrong sum in call " + std::to_string(call);
      if (rank == 0) calls_ = call;
    }
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Endpoint> endpoints_[2];
  std::atomic<bool> is_stopping_{false};
  std::atomic<int> calls_{0};
  std::string failures_[2];
  std::thread threads_[2];
};

long resident_kib() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE) / 1024;
}

size_t count_lines_with(const std::string& text, const std::string& part) {
  size_t count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(part) != std::string::npos) ++count;
  return count;
}

TEST(Strangers, AreTurnedAwayCountedAndToldOfWhileTheJobGoesOn) {
  testing::internal::CaptureStderr();
  auto job = std::make_unique<Job>();
  Flood flood(job->endpoint(0).record().peer);
  ASSERT_TRUE(job->wait_for([](Transport& transport) {
    int links = 0;
    transport.visit_links([&](Link& link) { links += link.has_wire() ? 1 : 0; });
    return links == 1;
  }));
  ASSERT_TRUE(flood.record());
  const int calls_before = job->calls();
  long resident_before = 0;
  for (int number = 0; number < kConnections; ++number) {
    if (number == kConnections / 10) resident_before = resident_kib();
    ASSERT_TRUE(flood.connect(number % 8)) << "connection " << number;
  }
  [[maybe_unused]] const long growth_kib = resident_kib() - resident_before;
  EXPECT_TRUE(job->wait_for(
      [&](Transport& transport) { return flood.is_all_counted(transport.refusals()); }));
  uint64_t refused = 0;
  job->wait_for([&](Transport& transport) {
    for (size_t reason = 0; reason < kRefusalCount; ++reason)
      EXPECT_EQ(transport.refusals().count(static_cast<Refusal>(reason)), flood.expected()[reason])
          << "reason " << reason;
    refused = transport.refusals().stranger_count();
    int links = 0;
    transport.visit_links([&](Link&) { ++links; });
    EXPECT_EQ(links, 2) << "the other rank, and the process whose handshake was right";
    return true;
  });
  EXPECT_EQ(refused, uint64_t{kConnections} * 7 / 8);
  EXPECT_GT(job->calls(), calls_before);
  job->stop();
  EXPECT_EQ(job->failure(0), "");
  EXPECT_EQ(job->failure(1), "");
  job.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_lines_with(log, "refused a connection from 127.0.0.1: "), 1u) << log;
  EXPECT_EQ(count_lines_with(log, "refused a connection from 127.0.0.2: not mccl (first bytes "),
            1u)
      << log;
  EXPECT_EQ(count_lines_with(log, "refused"), 2u) << log;
  EXPECT_EQ(log.find(kSecret), std::string::npos);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(growth_kib, 4 * 1024);
#endif
}

TEST(Strangers, AnotherSecretIsNamedOnBothSides) {
  testing::internal::CaptureStderr();
  const std::shared_ptr<Store> store = make_memory_store();
  std::string failures[2];
  std::thread threads[2];
  for (int rank = 0; rank < 2; ++rank)
    threads[rank] = std::thread([&, rank] {
      EndpointOptions options;
      options.settings = {{"MCCL_SOCKET_IFNAME", "=lo"},
                          {"MCCL_SECRET", rank == 0 ? "one" : "two"},
                          {"MCCL_TIMEOUT", "5"}};
      const std::unique_ptr<Endpoint> endpoint = Endpoint::create(options).value();
      auto communicator = Communicator::create(*endpoint, *store, rank, 2, {});
      if (!communicator.is_ok()) {
        failures[rank] = communicator.status().to_string();
        return;
      }
      int32_t value = 1;
      auto work = communicator.value()->all_reduce(&value, &value, 1, DataType::Int32,
                                                   ReduceOp::Sum, {.will_wait = true});
      failures[rank] = work.is_ok() ? work.value()->wait().to_string() : work.status().to_string();
    });
  for (std::thread& thread : threads) thread.join();
  const std::string log = testing::internal::GetCapturedStderr();
  for (const std::string& failure : failures)
    EXPECT_EQ(failure.rfind("mismatch: the ranks have different values of MCCL_SECRET: ", 0), 0u)
        << failure << "\n"
        << log;
}

#if defined(__linux__)
// "0100007F:1F90" of every socket of this process that listens.
std::set<std::string> listening_addresses() {
  std::set<std::string> own;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    char target[64] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0) own.insert(target);
  }
  ::closedir(folder);
  std::set<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode;
      if (state == "0A" && own.contains("socket:[" + inode + "]")) addresses.insert(local);
    }
  }
  return addresses;
}

TEST(Strangers, FindNoListenerButThatOfTheChosenAddress) {
  EndpointOptions options;
  options.settings = {{"MCCL_SOCKET_IFNAME", "=lo"}};
  const std::unique_ptr<Endpoint> endpoint = Endpoint::create(options).value();
  const std::string address = endpoint->core().record().peer.address;
  const std::set<std::string> listening = listening_addresses();
  ASSERT_EQ(listening.size(), 1u);
  char expected[32];
  std::snprintf(expected, sizeof expected, "0100007F:%04X",
                static_cast<unsigned>(std::stoi(address.substr(address.rfind(':') + 1))));
  EXPECT_EQ(*listening.begin(), expected);
}
#endif

}  // namespace
}  // namespace mccl
