// Why does it take so long? (law L9)
//
// Whoever has waited for 200 ms in its oldest operation asks the peers that it waits for, with its
// full call: a peer that made another call finds the mismatch. The answer says who holds the peer
// up: the peer itself, which has not made the call, or those that it waits for in turn; news go to
// whoever asked. So every rank that waits comes to know the ranks at the end of the chain, however
// long it is, and a circle of waits through several groups. A peer that does not answer is stopped.
//
// Belongs to the engine: one thread at a time, nothing blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "comm/engine_group.h"
#include "comm/holdup.h"
#include "transport/transport.h"

namespace mccl {

class WaitWatch {
 public:
  // `process_name` is for peers that know no rank of this process: "host h7, pid 4711". All
  // references outlive the watch.
  WaitWatch(const EngineGroups& groups, Transport& transport, const Clock& clock,
            const Logger& logger, std::string process_name);

  // Asks where it is time, gives notice of peers that do not answer; returns when to look again.
  TimeNs look(TimeNs now);

  static bool is_about_messages(const FrameHeader& probe) { return probe.sequence == kMessageWait; }
  // The call of a peer of `group` (null: it is not known here) has been compared already.
  void on_probe(Link& link, const FrameHeader& head, EngineGroup* group);
  // False when the bytes are no report.
  bool on_report(Link& link, uint64_t communicator, std::span<const std::byte> report);
  void forget_group(uint64_t communicator) { inquiries_.erase(communicator); }

  // What is known of who holds this communicator's waiting operation up; empty when nothing is.
  std::string explain(uint64_t communicator) const;

 private:
  // Messages have no number that both ends know.
  static constexpr uint64_t kMessageWait = UINT64_MAX;
  // What a communicator waits for now.
  struct Wait {
    uint64_t number = 0;  // the operation's; of messages kMessageWait
    TimeNs since = 0;
    Fingerprint fingerprint = {};
    std::vector<uint64_t> peers;  // empty: something of this rank
    std::string own_reason;       // then
  };
  struct Answer {
    TimeNs asked_at = kNever;  // kNever: answered
    bool is_silent = false;
    bool was_connected = false;  // when it was found to be silent
  };
  // By process and communicator.
  using Sayings = std::map<std::pair<uint64_t, uint64_t>, Holdup>;
  // What an asker knows of each saying. What it does not hurry to hear is that a saying is
  // repeated, or that a rank has come and waits, too.
  struct Told {
    uint64_t version = 0;
    uint64_t posted_count = 0;
    bool is_silent = false;
    bool is_busy = false;
    bool is_link = false;
    bool is_like(const Told& other) const {
      return posted_count == other.posted_count && is_silent == other.is_silent &&
             is_busy == other.is_busy && is_link == other.is_link;
    }
    bool is_older_than(const Told& other) const {
      return version != other.version ? version < other.version : !is_silent && other.is_silent;
    }
  };
  using ToldSayings = std::map<std::pair<uint64_t, uint64_t>, Told>;
  struct Asker {
    uint64_t number = 0;
    ToldSayings told;
    int news_left = 0;  // until it asks again
  };
  struct Inquiry {
    std::optional<Wait> wait;
    TimeNs ask_at = 0;
    TimeNs interval = 0;
    bool has_told_circle = false;
    bool has_told_wait = false;
    std::map<uint64_t, Answer> answers;  // by process
    Sayings said;                        // by others
    std::map<uint64_t, Asker> askers;    // by process: they are told when the answer changes
    Holdup own;                          // what this process last said of itself
  };

  static std::optional<Wait> find_wait(const EngineGroup& group, TimeNs now);
  TimeNs look_at(uint64_t communicator, const EngineGroup& group, Wait wait, TimeNs now);
  void ask(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry, TimeNs now);
  TimeNs note_silence(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry,
                      TimeNs now);
  static Told told_of(const Holdup& holdup);
  static Holdup silence_of(uint64_t process, uint64_t communicator, const EngineGroup& group,
                           const Inquiry& inquiry, const Answer& answer, TimeNs now);
  void tell_of_circle(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry) const;
  // Takes what was said, unless something later is known.
  void note(uint64_t communicator, Inquiry& inquiry, Holdup holdup) const;
  // What is said of others and keeps this rank waiting.
  static std::vector<Holdup> find_holdups(uint64_t communicator, const Inquiry& inquiry);
  std::vector<Holdup> find_circle(uint64_t communicator, const Inquiry& inquiry) const;
  std::vector<Holdup> make_report(uint64_t communicator, const EngineGroup& group, uint64_t number);
  const Holdup& speak(uint64_t communicator, const EngineGroup& group);
  void describe_absence(const EngineGroup& group, uint64_t communicator, Holdup& holdup) const;
  void tell_askers(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry);
  std::string explain(uint64_t communicator, const EngineGroup& group,
                      const Inquiry& inquiry) const;
  // "rank 2 (host h7, pid 4711) has not made operation 12 of group world; its last call ..."
  static std::string describe(const EngineGroup& group, const Wait& wait, uint64_t communicator,
                              const std::vector<Holdup>& holdups);
  static std::string describe_wait(const EngineGroup& group, const Wait& wait);
  static std::string names_of(const EngineGroup& group, std::span<const uint64_t> processes);
  static std::string describe_peers(const EngineGroup& group, const Wait& wait);
  std::string own_name(const EngineGroup& group) const;
  std::string age(TimeNs since) const;

  const EngineGroups& groups_;
  Transport& transport_;
  const Clock& clock_;
  const Logger& logger_;
  std::string process_name_;
  std::map<uint64_t, Inquiry> inquiries_;  // by communicator
  bool has_news_ = false;                  // the askers are told when somebody looks
};

}  // namespace mccl
