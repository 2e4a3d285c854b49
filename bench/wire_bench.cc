// Latency and throughput of one TCP wire between two processes over loopback: an 8-byte ping-pong
// with three ways to wait, and streams of 256 KiB writes in one direction and in both, for every
// congestion control that the kernel allows. Only ratios within one run are evidence: another
// process on the machine halves the figures.
//
// Usage: wire_bench [MEBIBYTES_PER_STREAM]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "transport/socket.h"
#include "transport/tcp_wire.h"

namespace mccl {
namespace {

constexpr size_t kWriteBytes = size_t{256} << 10;
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr uint64_t kToken = 1;

// How an end waits for bytes.
enum class Wait : uint8_t { SpinOnRead, SpinOnPoll, Block };

const char* wait_name(Wait wait) {
  switch (wait) {
    case Wait::SpinOnRead:
      return "spin on read";
    case Wait::SpinOnPoll:
      return "spin on poll(0)";
    case Wait::Block:
      return "block in poll";
  }
  return "unknown";
}

// One end of the connection under test.
struct End {
  std::unique_ptr<WireContext> context;
  std::unique_ptr<Wire> wire;

  void wait(Wait how) {
    if (how == Wait::SpinOnRead) return;
    events_.clear();
    context->poll(how == Wait::Block ? -1 : 0, events_);
  }

 private:
  std::vector<WireEvent> events_;
};

size_t check_moved(const Result<size_t>& moved) {
  MCCL_CHECK_EQ(moved.status().to_string(), "ok");
  return moved.value();
}

std::unique_ptr<WireContext> make_context(const std::string& congestion_control) {
  TcpOptions options;
  options.congestion_controls = {congestion_control};
  Result<std::unique_ptr<WireContext>> context = make_tcp_context(options);
  MCCL_CHECK_EQ(context.status().to_string(), "ok");
  return std::move(context).value();
}

// Runs `child` in another process, connected to `parent` in this one.
void run_pair(const std::string& congestion_control, const std::function<void(End&)>& parent,
              const std::function<void(End&)>& child) {
  End end;
  end.context = make_context(congestion_control);
  const std::string address = end.context->address();
  std::fflush(stdout);
  const pid_t process = ::fork();
  MCCL_CHECK(process >= 0);
  if (process == 0) {
    End other;
    other.context = make_context(congestion_control);
    other.wire = other.context->connect(address, kToken).value();
    child(other);
    ::_exit(0);
  }
  while (end.wire == nullptr) {
    end.wait(Wait::Block);
    end.wire = end.context->accept(kToken);
  }
  parent(end);
  int state = 0;
  MCCL_CHECK_EQ(::waitpid(process, &state, 0), process);
  MCCL_CHECK_EQ(state, 0);
}

void write_word(End& end, uint64_t word, Wait how) {
  const iovec piece{&word, sizeof word};
  while (check_moved(end.wire->write({&piece, 1})) == 0) end.wait(how);
}

uint64_t read_word(End& end, Wait how) {
  uint64_t word = 0;
  const iovec piece{&word, sizeof word};
  size_t read_bytes = 0;
  while ((read_bytes = check_moved(end.wire->read({&piece, 1}))) == 0) end.wait(how);
  MCCL_CHECK_EQ(read_bytes, sizeof word);
  return word;
}

void measure_ping_pong(const std::string& congestion_control, Wait how) {
  constexpr uint64_t kRounds = 3'000;
  std::vector<TimeNs> round_trips;
  const SystemClock clock;
  run_pair(
      congestion_control,
      [&](End& end) {
        read_word(end, how);
        for (uint64_t round = 0; round < kRounds; ++round) {
          const TimeNs begin = clock.now();
          write_word(end, round, how);
          MCCL_CHECK_EQ(read_word(end, how), round);
          round_trips.push_back(clock.now() - begin);
        }
      },
      [&](End& end) {
        write_word(end, 0, how);
        for (uint64_t round = 0; round < kRounds; ++round)
          write_word(end, read_word(end, how), how);
      });
  std::sort(round_trips.begin(), round_trips.end());
  const auto us_at = [&](double quantile) {
    const double index = quantile * static_cast<double>(kRounds - 1);
    return static_cast<double>(round_trips[static_cast<size_t>(index)]) / kNsPerUs;
  };
  std::printf("%-8s %-16s round trip of 8 B: p50 %7.1f us, p90 %7.1f us, p99 %7.1f us\n",
              congestion_control.c_str(), wait_name(how), us_at(0.5), us_at(0.9), us_at(0.99));
}

// Sends and receives so many bytes, blocking when neither direction moves.
void stream(End& end, uint64_t send_bytes, uint64_t recv_bytes) {
  std::vector<char> source(kWriteBytes, 1);
  std::vector<char> target(kReadBytes);
  while (send_bytes > 0 || recv_bytes > 0) {
    size_t moved_bytes = 0;
    if (send_bytes > 0) {
      const iovec piece{source.data(), std::min<uint64_t>(send_bytes, kWriteBytes)};
      const size_t sent_bytes = check_moved(end.wire->write({&piece, 1}));
      send_bytes -= sent_bytes;
      moved_bytes += sent_bytes;
    }
    if (recv_bytes > 0) {
      const iovec piece{target.data(), std::min<uint64_t>(recv_bytes, kReadBytes)};
      const size_t read_bytes = check_moved(end.wire->read({&piece, 1}));
      recv_bytes -= read_bytes;
      moved_bytes += read_bytes;
    }
    if (moved_bytes == 0) end.wait(Wait::Block);
  }
}

void measure_stream(const std::string& congestion_control, uint64_t bytes, bool is_duplex) {
  TimeNs taken_ns = 0;
  const SystemClock clock;
  run_pair(
      congestion_control,
      [&](End& end) {
        read_word(end, Wait::Block);
        const TimeNs begin = clock.now();
        stream(end, is_duplex ? bytes : 0, bytes);
        // In duplex the other end may still read: its word says that it has everything.
        if (is_duplex) read_word(end, Wait::Block);
        taken_ns = clock.now() - begin;
        write_word(end, 0, Wait::Block);
      },
      [&](End& end) {
        write_word(end, 0, Wait::Block);
        stream(end, bytes, is_duplex ? bytes : 0);
        if (is_duplex) write_word(end, 0, Wait::Block);
        read_word(end, Wait::Block);
      });
  std::printf("%-8s %-16s 256 KiB writes: %6.2f GB/s per direction\n", congestion_control.c_str(),
              is_duplex ? "both directions" : "one direction",
              static_cast<double>(bytes) / static_cast<double>(taken_ns));
}

int run(uint64_t bytes) {
  for (const char* name : {"bbr", "cubic", "reno"}) {
    const FileDescriptor probe = make_stream_socket(AF_INET);
    if (choose_congestion_control(probe.number(), {name}) != name) {
      std::printf("%-8s is not allowed here\n", name);
      continue;
    }
    for (const Wait how : {Wait::SpinOnRead, Wait::SpinOnPoll, Wait::Block})
      measure_ping_pong(name, how);
  }
  // Interleaved, so that noise hits all alike.
  for (int turn = 0; turn < 3; ++turn) {
    for (const char* name : {"bbr", "cubic", "reno"}) {
      const FileDescriptor probe = make_stream_socket(AF_INET);
      if (choose_congestion_control(probe.number(), {name}) != name) continue;
      measure_stream(name, bytes, false);
      measure_stream(name, bytes, true);
    }
  }
  return 0;
}

}  // namespace
}  // namespace mccl

int main(int argument_count, char** arguments) {
  const uint64_t mebibytes = argument_count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 2'048;
  return mccl::run(mebibytes << 20);
}
