// When a host that says nothing any more counts as lost. Pure: the kernel's facts and the time come
// in as arguments. socket.h reads the facts and sets the timers.
#pragma once

#include "base/clock.h"

namespace mccl {

// What the kernel is told about one connection.
struct SilenceTimers {
  int keep_idle_s = 0;                 // silence after which an idle connection is probed
  int keep_interval_s = 0;             // between probes
  int keep_count = 0;                  // unanswered probes that end the connection
  int connect_tries = 0;               // repetitions of the request to connect
  int retransmit_interval_max_ms = 0;  // between repetitions of anything else
};

// For `peer_timeout_ns`, of which less than a second counts as a second: an idle connection ends
// between the timeout and a second later (minutes later when the timeout is hours).
SilenceTimers silence_timers(TimeNs peer_timeout_ns);

// What the kernel knows of one connection at one moment.
struct PeerSilence {
  bool is_asked = false;  // something of ours, a probe too, waits for an answer
  TimeNs silent_ns = 0;   // since the peer's host was last heard
};

// Judges one connection. A host is lost when it has been silent for the timeout and was asked for
// the last half of it (or as much of it as idle connections are probed) without a pause: so are
// idle connections by their probes. An answer of a live host in that time clears it.
class SilenceWatch {
 public:
  explicit SilenceWatch(TimeNs peer_timeout_ns);

  // To be called about once a second; what went unanswered while nobody called does not count.
  bool is_lost(const PeerSilence& peer, TimeNs now);

  // The same before the connection is made: for how long the first caller has waited.
  TimeNs connecting_ns(TimeNs now);

  TimeNs timeout_ns() const { return timeout_ns_; }

 private:
  TimeNs timeout_ns_;
  TimeNs asked_ns_min_;
  TimeNs asked_since_ = kNever;
  TimeNs last_check_ = kNever;
  TimeNs connecting_since_ = kNever;
};

}  // namespace mccl
