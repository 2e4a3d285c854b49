// A switch with a delay, for scripts/fleet.sh: a tap device in each namespace, and every Ethernet
// frame that leaves one of them arrives at its receiver's a fixed time later. The kernels' TCP at
// both ends is untouched and sees a longer cable; a proxy between sockets would acknowledge for it.
//
//   delay_relay --delay-us 295 NAMESPACE...
//
// Prints "ready" once the devices are there, and what it has done as JSON when it is ended by
// SIGTERM or SIGINT. Needs root and /dev/net/tun (Linux).
//
// The delay is the same for all frames, so one queue in order of arrival is the whole delay line.
// Frames carry the kernel's offload header, so that a packet of the stack up to 64 KiB is one
// frame here: two system calls and two copies for each. A wake-up takes as long as a part of the
// delay, so the relay spins while a frame is due soon or came a moment ago; one core is its own.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr const char* kDevice = "tap0";
constexpr int kExitUsage = 2;
constexpr int kExitFailed = 3;
constexpr size_t kOffloadHeaderBytes = 10;  // struct virtio_net_hdr
constexpr size_t kFrameBytesMax = kOffloadHeaderBytes + ETH_HLEN + 65'536;
// Beyond so much on its way the relay drops, as a switch does.
constexpr size_t kBytesHeldMax = size_t{512} << 20;
// Measured here: an idle core needs 50 us and more to wake up.
constexpr int64_t kSpinBeforeDueNs = 150'000;
constexpr int64_t kSpinAfterFrameNs = 300'000;
constexpr int kFramesPerTurn = 8;

using Address = std::array<uint8_t, ETH_ALEN>;

volatile std::sig_atomic_t was_ended = 0;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Frame {
  int64_t due_ns = 0;
  size_t source = 0;
  std::vector<uint8_t> bytes = {};  // offload header and Ethernet frame

  Address address_at(size_t offset) const {
    Address address{};
    std::memcpy(address.data(), bytes.data() + kOffloadHeaderBytes + offset, address.size());
    return address;
  }
  Address destination() const { return address_at(0); }
  Address sender() const { return address_at(ETH_ALEN); }
};

class Relay {
 public:
  Relay(std::vector<int> taps, int64_t delay_ns) : taps_(std::move(taps)), delay_ns_(delay_ns) {}

  bool start();
  void run();
  std::string report() const;

 private:
  void wait();
  void take_from(size_t port);
  void deliver_due();
  void deliver(const Frame& frame);
  void write_to(size_t port, const Frame& frame);

  std::vector<int> taps_;
  int64_t delay_ns_;
  int epoll_ = -1;
  std::deque<Frame> line_;
  std::vector<std::vector<uint8_t>> spare_;  // buffers of frames that were delivered
  std::map<Address, size_t> port_of_;
  std::array<epoll_event, 64> events_{};
  int64_t last_frame_ns_ = 0;
  size_t held_bytes_ = 0;
  uint64_t frame_count_ = 0;
  uint64_t byte_count_ = 0;
  uint64_t dropped_count_ = 0;
  uint64_t late_count_ = 0;  // by more than 20 us
  int64_t late_ns_sum_ = 0;
  int64_t late_ns_max_ = 0;
};

bool Relay::start() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return false;
  for (size_t port = 0; port < taps_.size(); ++port) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = port;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, taps_[port], &event) != 0) return false;
  }
  return true;
}

void Relay::run() {
  while (was_ended == 0) {
    deliver_due();
    wait();
  }
}

// Looks for frames; blocks only while nothing is due soon.
void Relay::wait() {
  const int64_t now = now_ns();
  int64_t left_ns = 100'000'000;  // a signal between the look and the wait is noticed then
  if (!line_.empty()) left_ns = std::min(left_ns, line_.front().due_ns - now - kSpinBeforeDueNs);
  if (now - last_frame_ns_ < kSpinAfterFrameNs) left_ns = 0;
  left_ns = std::max<int64_t>(left_ns, 0);
  const timespec timeout{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
  const int count =
      ::epoll_pwait2(epoll_, events_.data(), static_cast<int>(events_.size()), &timeout, nullptr);
  for (int index = 0; index < count; ++index) {
    take_from(events_[static_cast<size_t>(index)].data.u64);
    deliver_due();
  }
}

void Relay::take_from(size_t port) {
  for (int turn = 0; turn < kFramesPerTurn; ++turn) {
    Frame frame;
    if (!spare_.empty()) {
      frame.bytes = std::move(spare_.back());
      spare_.pop_back();
    }
    frame.bytes.resize(kFrameBytesMax);
    const ssize_t length = ::read(taps_[port], frame.bytes.data(), frame.bytes.size());
    if (length < static_cast<ssize_t>(kOffloadHeaderBytes + ETH_HLEN)) {
      spare_.push_back(std::move(frame.bytes));
      return;
    }
    frame.bytes.resize(static_cast<size_t>(length));
    last_frame_ns_ = now_ns();
    frame.due_ns = last_frame_ns_ + delay_ns_;
    frame.source = port;
    port_of_[frame.sender()] = port;
    if (held_bytes_ + frame.bytes.size() > kBytesHeldMax) {
      ++dropped_count_;
      continue;
    }
    held_bytes_ += frame.bytes.size();
    line_.push_back(std::move(frame));
  }
}

void Relay::deliver_due() {
  while (!line_.empty()) {
    const int64_t late_ns = now_ns() - line_.front().due_ns;
    if (late_ns < 0) return;
    late_ns_sum_ += late_ns;
    late_ns_max_ = std::max(late_ns_max_, late_ns);
    late_count_ += late_ns > 20'000 ? 1 : 0;
    deliver(line_.front());
    held_bytes_ -= line_.front().bytes.size();
    ++frame_count_;
    byte_count_ += line_.front().bytes.size() - kOffloadHeaderBytes;
    spare_.push_back(std::move(line_.front().bytes));
    line_.pop_front();
  }
}

// To the port where the destination has been seen, else to all others.
void Relay::deliver(const Frame& frame) {
  const Address destination = frame.destination();
  const auto found = port_of_.find(destination);
  const bool is_group = (destination[0] & 1) != 0;
  if (!is_group && found != port_of_.end()) {
    write_to(found->second, frame);
    return;
  }
  for (size_t port = 0; port < taps_.size(); ++port)
    if (port != frame.source) write_to(port, frame);
}

void Relay::write_to(size_t port, const Frame& frame) {
  const ssize_t written = ::write(taps_[port], frame.bytes.data(), frame.bytes.size());
  // A device that is not up yet refuses (EIO): the frame is lost, as on a cable.
  if (written != static_cast<ssize_t>(frame.bytes.size())) ++dropped_count_;
}

std::string Relay::report() const {
  const double mean_us = frame_count_ == 0 ? 0
                                           : static_cast<double>(late_ns_sum_) * 1e-3 /
                                                 static_cast<double>(frame_count_);
  const nlohmann::ordered_json json = {{"frames", frame_count_},
                                       {"bytes", byte_count_},
                                       {"dropped", dropped_count_},
                                       {"late_us_mean", mean_us},
                                       {"late_us_max", static_cast<double>(late_ns_max_) * 1e-3},
                                       {"late_by_more_than_20_us", late_count_}};
  return json.dump();
}

int complain(const std::string& what) {
  std::fprintf(stderr, "delay_relay: %s: %s\n", what.c_str(), std::strerror(errno));
  return -1;
}

// A device of the namespace that this thread is in; -1 after a complaint.
int make_tap(const std::string& place) {
  const int tap = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) return complain("cannot open /dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, kDevice, IFNAMSIZ - 1);
  request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR);
  if (::ioctl(tap, TUNSETIFF, &request) != 0) return complain("no device in " + place);
  const unsigned long offload = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
  if (::ioctl(tap, TUNSETOFFLOAD, offload) != 0) return complain("no offload in " + place);
  return tap;
}

// The device stays in its namespace, its descriptor works from everywhere.
int make_tap_in(const std::string& name) {
  const std::string path = "/run/netns/" + name;
  const int there = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (there < 0) return complain("no namespace " + path);
  const int entered = ::setns(there, CLONE_NEWNET);
  ::close(there);
  if (entered != 0) return complain("cannot enter " + path);
  return make_tap(path);
}

void end(int) {
  was_ended = 1;
}

}  // namespace

int main(int argument_count, char** argument_words) {
  double delay_us = 0;
  std::vector<std::string> names;
  CLI::App app{"A switch that holds every frame for a fixed time."};
  app.add_option("--delay-us", delay_us)->required()->check(CLI::Range(0.0, 1e6));
  app.add_option("namespaces", names)->required();
  try {
    app.parse(argument_count, argument_words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  std::vector<int> taps;
  for (const std::string& name : names) {
    taps.push_back(make_tap_in(name));
    if (taps.back() < 0) return kExitFailed;
  }
  struct sigaction action {};
  action.sa_handler = end;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);

  Relay relay(std::move(taps), static_cast<int64_t>(delay_us * 1e3));
  if (!relay.start()) {
    complain("cannot watch the devices");
    return kExitFailed;
  }
  std::printf("ready\n");
  std::fflush(stdout);
  relay.run();
  std::printf("%s\n", relay.report().c_str());
  return 0;
}
