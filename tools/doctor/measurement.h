// One direction of a pair: the round trip of 8 bytes, what one connection moves, and the path's
// MTU. `from` connects, says Measure and hears Ready; then it sends kPingCount messages of
// kPingBytes, one at a time, which come back; then bytes until the time or the number of them is
// over, and the end of its stream; then it hears Received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "doctor/doctor_message.h"
#include "doctor/pair_result.h"
#include "transport/socket.h"

namespace mccl {

constexpr size_t kPingBytes = 8;
constexpr size_t kWarmUpCount = 3;  // not counted
constexpr size_t kPingCount = kWarmUpCount + 20;

struct MeasureLimits {
  TimeNs answer_ns = 3 * kNsPerSecond;  // no answer, and no progress, for as long is a finding
  TimeNs stream_ns = kNsPerSecond;      // what ends first ends the stream
  int64_t stream_bytes = int64_t{64} << 20;
};

// The most that measure_pair() takes: connecting, Ready, pings, the stream, its drain.
TimeNs measure_ns_max(const MeasureLimits& limits);

struct MeasureTask {
  SocketAddress peer;
  DoctorMessage greeting;  // Measure
};

// Blocks, measure_ns_max() at most. What goes wrong is in the result.
PairResult measure_pair(const MeasureTask& task, const MeasureLimits& limits, const Clock& clock);

// A failed connect() of any kind; `socket` may have no address yet.
PairResult connect_result(int error_number, int socket, const SocketAddress& peer,
                          TimeNs waited_ns);

// A non-blocking connection as the engine makes them. `error_number`: 0, EINPROGRESS, or why not.
FileDescriptor start_connecting(const SocketAddress& peer, int* error_number);
// 0, or why the connection was not made; to be asked when the socket is writable.
int finish_connecting(int socket);

// Whether the call that ended with it is to be made again, at once or when the socket is ready.
bool is_for_later(int64_t error_number);
// How many bytes were written, which may be fewer, or minus the error number. Never blocks.
int64_t send_now(int socket, std::span<const char> bytes);
// How many bytes were read, 0 at the end of the stream, or minus the error number. Never blocks.
int64_t receive_now(int socket, std::span<char> bytes);

// The other side of measure_pair(), from after Ready on.
class Responder {
 public:
  // Echoes what is a ping, counts what is not. False: the connection is of no use any more.
  bool take(int socket, std::span<const char> bytes);
  // The peer has ended its stream: says Received.
  bool end(int socket) const;

 private:
  int64_t ping_bytes_left_ = kPingBytes * kPingCount;
  int64_t received_bytes_ = 0;
};

}  // namespace mccl
