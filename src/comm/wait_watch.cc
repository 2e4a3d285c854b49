#include "comm/wait_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/fingerprint.h"

namespace mccl {
namespace {

// A call that waits so long asks whom it waits for.
constexpr TimeNs kPatienceNs = 200 * kNsPerMs;
// Asks again after this time, then after twice as long, up to the longest.
constexpr TimeNs kIntervalMaxNs = 5 * kNsPerSecond;
// The engine of a living process answers at once, whatever its callers do; a question may wait
// behind data on a slow link.
constexpr TimeNs kSilentNs = 2 * kNsPerSecond;
constexpr const char* kSilentText = "it does not answer: it is stopped, or its host sleeps";
// A process that has said nothing for so long may have been taken for silent meanwhile.
constexpr TimeNs kRepeatedNs = kSilentNs;
// News to whoever asked, until it asks again: one that is stopped finds no heap of them.
constexpr int kNewsMax = 8;
// What was said is asked for again long before; what nobody repeats does not hold any more.
constexpr TimeNs kSayingLastsNs = 3 * kIntervalMaxNs;
// A circle of waits may dissolve by itself when calls are asynchronous.
constexpr TimeNs kCircleNs = 2 * kNsPerSecond;
// Then a notice says who is waited for, once per operation.
constexpr TimeNs kNoticeNs = 30 * kNsPerSecond;

}  // namespace

WaitWatch::WaitWatch(const EngineGroups& groups, Transport& transport, const Clock& clock,
                     const Logger& logger, std::string process_name)
    : groups_(groups),
      transport_(transport),
      clock_(clock),
      logger_(logger),
      process_name_(std::move(process_name)) {}

std::string WaitWatch::age(TimeNs since) const {
  return fmt::format("{:.1f} s", static_cast<double>(clock_.now() - since) / 1e9);
}

std::string WaitWatch::own_name(const EngineGroup& group) const {
  return group.members.at(transport_.process_id()).name;
}

std::optional<WaitWatch::Wait> WaitWatch::find_wait(const EngineGroup& group, TimeNs now) {
  if (group.queue.has_failed()) return std::nullopt;
  const TimeNs before = now - kPatienceNs;
  const Operation* oldest = group.queue.oldest();
  if (oldest != nullptr && oldest->spec().posted_at <= before) {
    Wait wait{.number = oldest->sequence(),
              .since = oldest->spec().posted_at,
              .fingerprint = oldest->spec().fingerprint,
              .peers = oldest->waited_peers(),
              .own_reason = {}};
    if (wait.peers.empty()) wait.own_reason = oldest->describe_waits(1);
    return wait;
  }
  const MessageSpec* message = group.messages.oldest();
  if (message == nullptr || message->posted_at > before) return std::nullopt;
  Wait wait;
  wait.number = kMessageWait;
  wait.since = message->posted_at;
  if (message->link != nullptr)
    wait.peers = {message->link->peer_process()};
  else
    wait.own_reason = "a message from any rank";
  return wait;
}

TimeNs WaitWatch::look(TimeNs now) {
  TimeNs next = kNever;
  for (const auto& [communicator, group] : groups_) {
    std::optional<Wait> wait = find_wait(*group, now);
    if (wait) {
      next = std::min(next, look_at(communicator, *group, *std::move(wait), now));
      continue;
    }
    const auto found = inquiries_.find(communicator);
    if (found != inquiries_.end()) found->second.wait.reset();
    if (!group->queue.has_failed() && group->in_flight_count() > 0)
      next = std::min(next, now + kPatienceNs);
  }
  // Once for all that has come: whoever asked about another group may wait for this rank because
  // this rank waits here.
  if (std::exchange(has_news_, false))
    for (auto& [communicator, inquiry] : inquiries_) {
      const auto group = groups_.find(communicator);
      if (group != groups_.end()) tell_askers(communicator, *group->second, inquiry);
    }
  return next;
}

TimeNs WaitWatch::look_at(uint64_t communicator, const EngineGroup& group, Wait wait, TimeNs now) {
  Inquiry& inquiry = inquiries_[communicator];
  if (!inquiry.wait || inquiry.wait->number != wait.number || inquiry.wait->since != wait.since) {
    inquiry.ask_at = now;
    inquiry.interval = kPatienceNs;
    inquiry.has_told_circle = inquiry.has_told_wait = false;
    inquiry.said.clear();
  }
  inquiry.wait = std::move(wait);
  const std::vector<uint64_t>& peers = inquiry.wait->peers;
  std::erase_if(inquiry.answers, [&](const auto& answer) {
    return std::find(peers.begin(), peers.end(), answer.first) == peers.end();
  });
  std::erase_if(inquiry.said,
                [now](const auto& item) { return item.second.said_at < now - kSayingLastsNs; });
  if (now >= inquiry.ask_at) ask(communicator, group, inquiry, now);
  const TimeNs silent_at = note_silence(communicator, group, inquiry, now);
  const TimeNs waited = now - inquiry.wait->since;
  if (waited >= kCircleNs && !inquiry.has_told_circle) tell_of_circle(communicator, group, inquiry);
  if (waited >= kNoticeNs && !std::exchange(inquiry.has_told_wait, true)) {
    std::string reason = explain(communicator);
    if (reason.empty())
      reason =
          "it waits for " + (peers.empty() ? inquiry.wait->own_reason : names_of(group, peers));
    logger_.warning(fmt::format("{} has waited for {}: {}", describe_wait(group, *inquiry.wait),
                                age(inquiry.wait->since), reason));
  }
  const TimeNs notice_at = inquiry.wait->since + kNoticeNs;
  return std::min({inquiry.ask_at, silent_at, notice_at > now ? notice_at : kNever});
}

void WaitWatch::ask(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry, TimeNs now) {
  for (const uint64_t process : inquiry.wait->peers) {
    Answer& answer = inquiry.answers[process];
    Link& link = transport_.link(process);
    // One question at a time: a peer that is stopped finds no heap of them.
    if (answer.asked_at != kNever || link.is_failed() || !group.members.contains(process)) continue;
    answer.asked_at = now;
    // The peer may never come to the call for which it would connect.
    if (!link.has_wire())
      (void)transport_.connect(group.members.at(process).peer, Initiative::Ours);
    link.send_probe(communicator, inquiry.wait->number, inquiry.wait->fingerprint);
  }
  inquiry.ask_at = now + inquiry.interval;
  inquiry.interval = std::min(2 * inquiry.interval, kIntervalMaxNs);
}

Holdup WaitWatch::silence_of(uint64_t process, uint64_t communicator, const EngineGroup& group,
                             const Inquiry& inquiry, const Answer& answer, TimeNs now) {
  const auto known = inquiry.said.find({process, communicator});
  Holdup silent{.process = process, .communicator = communicator};
  if (known != inquiry.said.end()) silent = known->second;
  silent.is_silent = true;
  silent.said_at = now;
  silent.name = group.members.at(process).name;
  silent.text = answer.was_connected ? kSilentText : "it is not connected yet";
  return silent;
}

TimeNs WaitWatch::note_silence(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry,
                               TimeNs now) {
  TimeNs next = kNever;
  for (auto& [process, answer] : inquiry.answers) {
    if (answer.asked_at == kNever) continue;
    if (answer.is_silent) {
      // Of first hand, so that it is as true as long as there is no answer, whatever was forgotten.
      const auto known = inquiry.said.find({process, communicator});
      if (known == inquiry.said.end())
        note(communicator, inquiry, silence_of(process, communicator, group, inquiry, answer, now));
      else if (known->second.is_silent)
        known->second.said_at = now;
      continue;
    }
    if (now - answer.asked_at < kSilentNs) {
      next = std::min(next, answer.asked_at + kSilentNs);
      continue;
    }
    answer.is_silent = true;
    answer.was_connected = transport_.link(process).has_wire();
    Holdup silent = silence_of(process, communicator, group, inquiry, answer, now);
    logger_.warning(fmt::format("{} waits for {} for {}: {}", describe_wait(group, *inquiry.wait),
                                silent.name, age(inquiry.wait->since), silent.text));
    note(communicator, inquiry, std::move(silent));
    has_news_ = true;
  }
  return next;
}

void WaitWatch::tell_of_circle(uint64_t communicator, const EngineGroup& group,
                               Inquiry& inquiry) const {
  const std::vector<Holdup> circle = find_circle(communicator, inquiry);
  if (circle.empty()) return;
  inquiry.has_told_circle = true;
  logger_.warning(fmt::format("the ranks wait in a circle: {} waits in {}, and {}", own_name(group),
                              describe_wait(group, *inquiry.wait),
                              describe(group, *inquiry.wait, communicator, circle)));
}

std::string WaitWatch::describe_wait(const EngineGroup& group, const Wait& wait) {
  if (wait.number == kMessageWait) return fmt::format("a message of {}", group.title);
  return fmt::format("operation {} ({}) of {}", wait.number, describe_call(wait.fingerprint),
                     group.title);
}

std::string WaitWatch::describe(const EngineGroup& group, const Wait& wait, uint64_t communicator,
                                const std::vector<Holdup>& holdups) {
  constexpr size_t kTextsMax = 4;
  std::string text;
  for (size_t index = 0; index < holdups.size(); ++index) {
    const Holdup& holdup = holdups[index];
    if (index == kTextsMax) return text + fmt::format("; and {} more", holdups.size() - index);
    text += (index > 0 ? "; " : "") + holdup.name;
    const bool is_absent = holdup.communicator == communicator && wait.number != kMessageWait &&
                           holdup.posted_count <= wait.number && !holdup.is_silent;
    if (is_absent)
      text += fmt::format(" has not made operation {} of {}", wait.number, group.title);
    text += (is_absent ? "; " : ": ") + holdup.text;
  }
  return text;
}

void WaitWatch::note(uint64_t communicator, Inquiry& inquiry, Holdup holdup) const {
  if (holdup.process == transport_.process_id()) return;
  const auto answer = holdup.communicator == communicator ? inquiry.answers.find(holdup.process)
                                                          : inquiry.answers.end();
  const bool is_asked = answer != inquiry.answers.end();
  // What others believe of a process does not make up for the answer that it owes to this one, and
  // does not count beside the answer that it gave.
  if (is_asked && answer->second.is_silent && answer->second.was_connected && !holdup.is_silent) {
    holdup.is_silent = true;
    holdup.text = kSilentText;
  }
  if (is_asked && answer->second.asked_at == kNever && holdup.is_silent) return;
  const auto [known, is_new] =
      inquiry.said.try_emplace({holdup.process, holdup.communicator}, holdup);
  if (is_new || known->second.is_later_than(holdup)) return;
  if (holdup.is_later_than(known->second) || holdup.said_at > known->second.said_at)
    known->second = std::move(holdup);
}

std::vector<Holdup> WaitWatch::find_holdups(uint64_t communicator, const Inquiry& inquiry) {
  std::vector<Holdup> holdups;
  for (const auto& [key, holdup] : inquiry.said)
    if (holdup.communicator == communicator && holdup.holds(inquiry.wait->number))
      holdups.push_back(holdup);
  return holdups;
}

std::vector<Holdup> WaitWatch::find_circle(uint64_t communicator, const Inquiry& inquiry) const {
  if (inquiry.wait->number == kMessageWait) return {};
  std::vector<Holdup> holdups;
  for (const auto& [key, holdup] : inquiry.said) holdups.push_back(holdup);
  return mccl::find_circle(
      {transport_.process_id(), communicator, inquiry.wait->number, inquiry.wait->peers}, holdups,
      [this](uint64_t other, uint64_t number) {
        const auto group = groups_.find(other);
        return group == groups_.end() || group->second->queue.posted_count() <= number;
      });
}

void WaitWatch::describe_absence(const EngineGroup& group, uint64_t communicator,
                                 Holdup& holdup) const {
  const uint64_t posted = group.queue.posted_count();
  holdup.text = posted == 0
                    ? "it has made no call yet"
                    : fmt::format("its last call was {} ({}), {} ago, {}", posted - 1,
                                  describe_call(group.recorder.fingerprint(posted - 1)),
                                  age(group.queue.posted_at()),
                                  group.queue.in_flight_count() == 0 ? "complete" : "not complete");
  for (const auto& [other, inquiry] : inquiries_) {
    if (!inquiry.wait || inquiry.wait->peers.empty()) continue;
    // A message is told, and proves nothing: it may have been posted long before it is waited for.
    const bool is_message = inquiry.wait->number == kMessageWait;
    const auto found = groups_.find(other);
    if (found == groups_.end() || (other == communicator && !is_message)) continue;
    if (!is_message) {
      if (!holdup.waits_for.empty()) continue;
      holdup.waits_for = inquiry.wait->peers;
      holdup.waits_in = other;
      holdup.waits_number = inquiry.wait->number;
    }
    holdup.text += "; " + describe_peers(*found->second, *inquiry.wait);
  }
}

std::string WaitWatch::names_of(const EngineGroup& group, std::span<const uint64_t> processes) {
  constexpr size_t kNamesMax = 3;
  std::string names;
  for (size_t index = 0; index < processes.size(); ++index) {
    if (index == kNamesMax) {
      names += fmt::format(" and {} more", processes.size() - index);
      break;
    }
    const auto member = group.members.find(processes[index]);
    names += (index > 0 ? ", " : "") +
             (member == group.members.end() ? "another process" : member->second.name);
  }
  return names;
}

std::string WaitWatch::describe_peers(const EngineGroup& group, const Wait& wait) {
  return fmt::format("it waits for {} in {}", names_of(group, wait.peers),
                     describe_wait(group, wait));
}

// The words are made anew, the version only when something else has changed.
const Holdup& WaitWatch::speak(uint64_t communicator, const EngineGroup& group) {
  Inquiry& inquiry = inquiries_[communicator];
  Holdup next{.process = transport_.process_id(),
              .communicator = communicator,
              .version = inquiry.own.version,
              .posted_count = group.queue.posted_count(),
              .said_at = clock_.now(),
              .name = own_name(group)};
  const std::optional<Wait> wait = find_wait(group, next.said_at);
  const bool is_called = wait && wait->number != kMessageWait;
  next.is_busy = is_called && wait->peers.empty() && !wait->own_reason.empty();
  if (is_called) {
    next.waits_in = communicator;
    next.waits_number = wait->number;
  }
  if (next.is_busy) {
    next.text = "it waits for " + wait->own_reason;
  } else if (is_called && !wait->peers.empty()) {
    next.waits_for = wait->peers;
    next.text = describe_peers(group, *wait);
  } else {
    describe_absence(group, communicator, next);
  }
  const Holdup& last = inquiry.own;
  const bool is_same = last.process != 0 && last.posted_count == next.posted_count &&
                       last.waits_for == next.waits_for && last.waits_in == next.waits_in &&
                       last.waits_number == next.waits_number && last.is_busy == next.is_busy;
  if (!is_same || next.said_at - last.said_at >= kRepeatedNs) ++next.version;
  inquiry.own = std::move(next);
  return inquiry.own;
}

std::vector<Holdup> WaitWatch::make_report(uint64_t communicator, const EngineGroup& group,
                                           uint64_t number) {
  // The most important first: what is more than a report holds is left out.
  std::vector<Holdup> report = {speak(communicator, group)};
  std::vector<Holdup> links;
  std::vector<Holdup> over;  // so that it is known to be
  const bool is_absent = number == kMessageWait || number >= group.queue.posted_count();
  for (const auto& [other, inquiry] : inquiries_) {
    // Of other communicators only what keeps this rank from its call.
    if (!inquiry.wait || (other != communicator && !is_absent)) continue;
    for (const auto& [key, holdup] : inquiry.said) {
      const bool is_here = holdup.communicator == other;
      if (is_here && holdup.holds(other == communicator ? number : inquiry.wait->number))
        report.push_back(holdup);
      else if (holdup.is_link())
        links.push_back(holdup);
      else if (!is_here)
        report.push_back(holdup);
      else if (other == communicator)
        over.push_back(holdup);
    }
  }
  report.insert(report.end(), links.begin(), links.end());
  report.insert(report.end(), over.begin(), over.end());
  if (report.size() > kHoldupsMax) report.resize(kHoldupsMax);
  return report;
}

void WaitWatch::on_probe(Link& link, const FrameHeader& head, EngineGroup* group) {
  const uint64_t communicator = head.communicator;
  if (group == nullptr) {
    const Holdup absent{.process = transport_.process_id(),
                        .communicator = communicator,
                        .said_at = clock_.now(),
                        .name = "the process on " + process_name_,
                        .text = "it has not made this group yet, or has left it"};
    return link.send_report(communicator, head.sequence, write_report({&absent, 1}, clock_.now()));
  }
  const std::vector<Holdup> report = make_report(communicator, *group, head.sequence);
  link.send_report(communicator, head.sequence, write_report(report, clock_.now()));
  if (head.sequence == kMessageWait) return;
  Asker& asker = inquiries_[communicator].askers[link.peer_process()];
  asker.number = head.sequence;
  asker.news_left = kNewsMax;
  for (const Holdup& holdup : report)
    asker.told[{holdup.process, holdup.communicator}] = told_of(holdup);
}

bool WaitWatch::on_report(Link& link, uint64_t communicator, std::span<const std::byte> report) {
  std::optional<std::vector<Holdup>> holdups = parse_report(report, clock_.now());
  if (!holdups) return false;
  const auto found = inquiries_.find(communicator);
  const auto group = groups_.find(communicator);
  if (found == inquiries_.end() || group == groups_.end()) return true;
  Inquiry& inquiry = found->second;
  const auto answer = inquiry.answers.find(link.peer_process());
  if (answer == inquiry.answers.end()) return true;
  // What it says itself counts, whatever others have said of it.
  inquiry.said.erase({link.peer_process(), communicator});
  if (answer->second.is_silent)
    logger_.warning(fmt::format("{} answers again, after {}",
                                group->second->members.at(link.peer_process()).name,
                                age(answer->second.asked_at)));
  answer->second = {};
  for (Holdup& holdup : *holdups) note(communicator, inquiry, std::move(holdup));
  has_news_ = true;
  return true;
}

WaitWatch::Told WaitWatch::told_of(const Holdup& holdup) {
  return {holdup.version, holdup.posted_count, holdup.is_silent, holdup.is_busy, holdup.is_link()};
}

void WaitWatch::tell_askers(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry) {
  const OperationQueue& queue = group.queue;
  std::erase_if(inquiry.askers, [&](const auto& asker) {
    const uint64_t number = asker.second.number;
    const bool is_over = queue.oldest() == nullptr || queue.oldest()->sequence() > number;
    return number < queue.posted_count() && is_over;
  });
  std::map<uint64_t, std::vector<Holdup>> reports;  // by operation
  for (auto& [process, asker] : inquiry.askers) {
    Link& link = transport_.link(process);
    if (asker.news_left == 0 || link.is_failed()) continue;
    const auto [report, is_first] = reports.try_emplace(asker.number);
    if (is_first) report->second = make_report(communicator, group, asker.number);
    ToldSayings told = asker.told;
    std::vector<Holdup> news;
    bool is_urgent = false;
    for (const Holdup& holdup : report->second) {
      if (holdup.process == process) continue;
      const Told now = told_of(holdup);
      const auto [known, is_new] = told.try_emplace({holdup.process, holdup.communicator}, now);
      if (!is_new && !known->second.is_older_than(now)) continue;
      is_urgent |= is_new ? !now.is_link : !known->second.is_like(now);
      known->second = now;
      news.push_back(holdup);
    }
    if (!is_urgent) continue;
    asker.told = std::move(told);
    --asker.news_left;
    link.send_report(communicator, asker.number, write_report(news, clock_.now()));
  }
}

std::string WaitWatch::explain(uint64_t communicator) const {
  const auto found = inquiries_.find(communicator);
  const auto group = groups_.find(communicator);
  if (found == inquiries_.end() || group == groups_.end() || !found->second.wait) return {};
  return explain(communicator, *group->second, found->second);
}

std::string WaitWatch::explain(uint64_t communicator, const EngineGroup& group,
                               const Inquiry& inquiry) const {
  std::vector<Holdup> holdups = find_holdups(communicator, inquiry);
  const std::vector<Holdup> circle = find_circle(communicator, inquiry);
  if (!circle.empty())
    return "the ranks wait in a circle: " + describe(group, *inquiry.wait, communicator, circle);
  for (const auto& [process, answer] : inquiry.answers)
    if (answer.asked_at != kNever && !answer.is_silent)
      holdups.push_back({.process = process,
                         .is_silent = true,
                         .name = group.members.at(process).name,
                         .text = "it has not answered for " + age(answer.asked_at)});
  return describe(group, *inquiry.wait, communicator, holdups);
}

}  // namespace mccl
