// One listener and every connection of a doctor but the one that it measures with: it cuts bytes
// into messages, connects, and answers the peers that measure the way to this host. What the
// messages mean is the caller's business.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "doctor/doctor_message.h"
#include "doctor/measurement.h"
#include "mccl/status.h"
#include "transport/socket.h"

namespace mccl {

// One thread at a time.
class Switchboard {
 public:
  using Id = uint64_t;

  struct Event {
    enum class Kind : uint8_t { Connected, Message, Ended };
    Kind kind = Kind::Ended;
    Id id = 0;
    DoctorMessage message = {};  // Message
    PairResult failure = {};     // Ended: why, as far as it is known
  };

  // Listens at `address` only. Network says why not, and who has the port.
  static Result<std::unique_ptr<Switchboard>> listen(const SocketAddress& address,
                                                     const MeasureLimits& limits,
                                                     const Clock& clock);

  SocketAddress address() const { return local_address(listener_.number()); }

  // Begins to connect: Connected or Ended follows, within limits.answer_ns.
  Id dial(const SocketAddress& peer);
  void send(Id id, const DoctorMessage& message);
  // Without keep(), a connection ends limits.answer_ns after it was made.
  void keep(Id id);
  // After Ready: what comes now is measured with, and no event is reported of this connection.
  void serve(Id id);
  void close(Id id);  // reports nothing; unknown ids are ignored

  // Blocks until there is something to report or the deadline has come.
  std::vector<Event> wait(TimeNs deadline);

 private:
  struct Connection {
    Id id = 0;
    FileDescriptor socket;
    SocketAddress peer;
    bool is_connecting = false;
    bool is_serving = false;
    TimeNs since = 0;
    TimeNs deadline = kNever;
    std::string input = {};
    Responder responder = {};
  };

  Switchboard(FileDescriptor listener, const MeasureLimits& limits, const Clock& clock)
      : listener_(std::move(listener)), limits_(limits), clock_(clock), buffer_(kBufferBytes) {}

  static constexpr size_t kBufferBytes = size_t{256} << 10;

  Connection* find(Id id);
  void accept_all();
  void end(Connection& connection, const PairResult& failure, std::vector<Event>& events);
  void on_ready(Connection& connection, std::vector<Event>& events);
  void finish_dial(Connection& connection, std::vector<Event>& events);
  void read(Connection& connection, std::vector<Event>& events);
  void cut_lines(Connection& connection, std::vector<Event>& events);
  void end_late(TimeNs now, std::vector<Event>& events);

  FileDescriptor listener_;
  MeasureLimits limits_;
  const Clock& clock_;
  std::list<Connection> connections_;
  std::vector<Event> events_;  // of calls between two waits
  std::vector<char> buffer_;
  Id last_id_ = 0;
};

}  // namespace mccl
