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
// A circle of waits may dissolve by itself when calls are asynchronous.
constexpr TimeNs kCircleNs = 2 * kNsPerSecond;
// Then a notice says who is waited for, once per operation.
constexpr TimeNs kNoticeNs = 30 * kNsPerSecond;

std::string join(std::span<const Holdup> holdups) {
  constexpr size_t kTextsMax = 4;
  std::string text;
  for (size_t index = 0; index < holdups.size(); ++index) {
    if (index == kTextsMax) return text + fmt::format("; and {} more", holdups.size() - index);
    text += (index > 0 ? "; " : "") + holdups[index].text;
  }
  return text;
}

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

std::optional<WaitWatch::Wait> WaitWatch::find_wait(const EngineGroup& group) const {
  if (group.queue.has_failed()) return std::nullopt;
  const TimeNs before = clock_.now() - kPatienceNs;
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
    if (group->queue.has_failed() || group->in_flight_count() == 0) {
      const auto found = inquiries_.find(communicator);
      if (found != inquiries_.end()) found->second.wait.reset();
      continue;
    }
    next = std::min(next, look_at(communicator, *group, inquiries_[communicator], now));
  }
  return next;
}

TimeNs WaitWatch::look_at(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry,
                          TimeNs now) {
  std::optional<Wait> wait = find_wait(group);
  if (!wait) {
    inquiry.wait.reset();
    return now + kPatienceNs;
  }
  if (!inquiry.wait || inquiry.wait->number != wait->number || inquiry.wait->since != wait->since) {
    inquiry.ask_at = now;
    inquiry.interval = kPatienceNs;
    inquiry.has_told_circle = inquiry.has_told_wait = false;
  }
  inquiry.wait = std::move(wait);
  const std::vector<uint64_t>& peers = inquiry.wait->peers;
  std::erase_if(inquiry.answers, [&](const auto& answer) {
    return std::find(peers.begin(), peers.end(), answer.first) == peers.end();
  });
  if (now >= inquiry.ask_at) ask(communicator, group, inquiry, now);
  bool has_news = false;
  const TimeNs silent_at = note_silence(group, inquiry, now, &has_news);
  if (has_news) tell_askers(communicator, inquiry);
  const TimeNs waited = now - inquiry.wait->since;
  if (waited >= kCircleNs && !inquiry.has_told_circle) tell_of_circle(group, inquiry);
  if (waited >= kNoticeNs && !std::exchange(inquiry.has_told_wait, waited >= kNoticeNs))
    logger_.warning(fmt::format("{} has waited for {}: {}", describe_wait(group, *inquiry.wait),
                                age(inquiry.wait->since), explain(communicator)));
  return std::min(inquiry.ask_at, silent_at);
}

void WaitWatch::ask(uint64_t communicator, const EngineGroup& group, Inquiry& inquiry, TimeNs now) {
  for (const uint64_t process : inquiry.wait->peers) {
    Answer& answer = inquiry.answers[process];
    Link& link = transport_.link(process);
    // One question at a time: a peer that is stopped finds no heap of them.
    if (answer.asked_at != kNever || link.is_failed() || !group.members.contains(process)) continue;
    answer.asked_at = now;
    link.send_probe(communicator, inquiry.wait->number, inquiry.wait->fingerprint);
  }
  inquiry.ask_at = now + inquiry.interval;
  inquiry.interval = std::min(2 * inquiry.interval, kIntervalMaxNs);
}

TimeNs WaitWatch::note_silence(const EngineGroup& group, Inquiry& inquiry, TimeNs now,
                               bool* has_news) {
  TimeNs next = kNever;
  for (auto& [process, answer] : inquiry.answers) {
    if (answer.asked_at == kNever || answer.is_silent) continue;
    if (now - answer.asked_at < kSilentNs) {
      next = std::min(next, answer.asked_at + kSilentNs);
      continue;
    }
    answer.is_silent = true;
    const std::string& name = group.members.at(process).name;
    const std::string text = transport_.link(process).has_wire()
                                 ? name + " does not answer: it is stopped or its host sleeps"
                                 : name + " is not connected yet";
    answer.holdups = {{process, 0, text}};
    *has_news = true;
    logger_.warning(fmt::format("{} waits for {}, which has not answered for {}",
                                describe_wait(group, *inquiry.wait), text, age(answer.asked_at)));
  }
  return next;
}

void WaitWatch::tell_of_circle(const EngineGroup& group, Inquiry& inquiry) const {
  const std::vector<Holdup> circle =
      find_circle(transport_.process_id(), inquiry.wait->peers, collect(inquiry));
  if (circle.empty()) return;
  inquiry.has_told_circle = true;
  logger_.warning(fmt::format("the ranks wait in a circle: {} {}, and {}", own_name(group),
                              "waits in " + describe_wait(group, *inquiry.wait), join(circle)));
}

std::string WaitWatch::describe_wait(const EngineGroup& group, const Wait& wait) const {
  if (wait.number == kMessageWait) return fmt::format("a message of {}", group.title);
  return fmt::format("operation {} ({}) of {}", wait.number, describe_call(wait.fingerprint),
                     group.title);
}

// Each process once; what others say of this one is left out.
std::vector<Holdup> WaitWatch::collect(const Inquiry& inquiry) const {
  std::vector<Holdup> all;
  for (const auto& [process, answer] : inquiry.answers)
    for (const Holdup& holdup : answer.holdups) {
      const bool is_known = std::any_of(
          all.begin(), all.end(), [&](const Holdup& one) { return one.process == holdup.process; });
      if (!is_known && holdup.process != transport_.process_id()) all.push_back(holdup);
    }
  return all;
}

Holdup WaitWatch::describe_absence(const EngineGroup& group, uint64_t number) const {
  const uint64_t posted = group.queue.posted_count();
  Holdup holdup{transport_.process_id(), 0, own_name(group)};
  if (number != kMessageWait)
    holdup.text += fmt::format(" has not made operation {} of {}", number, group.title);
  else
    holdup.text += " has not come to the message";
  if (posted == 0)
    holdup.text += "; it has made no call yet";
  else
    holdup.text += fmt::format("; its last call was {} ({}), {} ago, {}", posted - 1,
                               describe_call(group.recorder.fingerprint(posted - 1)),
                               age(group.queue.posted_at()),
                               group.queue.in_flight_count() == 0 ? "complete" : "not complete");
  for (const auto& [communicator, inquiry] : inquiries_) {
    if (!inquiry.wait || inquiry.wait->peers.empty()) continue;
    const auto other = groups_.find(communicator);
    if (other == groups_.end()) continue;
    holdup.waits_for = inquiry.wait->peers.front();
    const auto member = other->second->members.find(holdup.waits_for);
    holdup.text += fmt::format(
        "; it waits for {} in {}",
        member == other->second->members.end() ? "another process" : member->second.name,
        describe_wait(*other->second, *inquiry.wait));
    break;
  }
  return holdup;
}

std::vector<Holdup> WaitWatch::make_report(const EngineGroup* group, uint64_t number) const {
  if (group == nullptr)
    return {{transport_.process_id(), 0,
             "the process on " + process_name_ + " has not made this group yet, or has left it"}};
  std::vector<Holdup> report;
  const auto add_all = [&](const Inquiry& inquiry) {
    for (Holdup& holdup : collect(inquiry))
      if (report.size() < kHoldupsMax) report.push_back(std::move(holdup));
  };
  if (number == kMessageWait || number >= group->queue.posted_count()) {
    report.push_back(describe_absence(*group, number));
    for (const auto& [communicator, inquiry] : inquiries_)
      if (inquiry.wait) add_all(inquiry);
    return report;
  }
  const std::optional<Wait> wait = find_wait(*group);
  if (!wait || wait->number > number) return report;
  if (wait->peers.empty() && !wait->own_reason.empty())
    report.push_back(
        {transport_.process_id(), 0, own_name(*group) + " waits for " + wait->own_reason});
  for (const auto& [communicator, inquiry] : inquiries_)
    if (inquiry.wait && groups_.contains(communicator) && groups_.at(communicator).get() == group)
      add_all(inquiry);
  return report;
}

WaitWatch::Shape WaitWatch::shape_of(std::span<const Holdup> holdups) {
  Shape shape;
  for (const Holdup& holdup : holdups) shape.emplace_back(holdup.process, holdup.waits_for);
  return shape;
}

void WaitWatch::on_probe(Link& link, const FrameHeader& head, EngineGroup* group) {
  const std::vector<Holdup> report = make_report(group, head.sequence);
  link.send_report(head.communicator, head.sequence, write_report(report));
  if (group != nullptr && head.sequence != kMessageWait)
    inquiries_[head.communicator].askers[link.peer_process()] = {head.sequence, shape_of(report)};
}

bool WaitWatch::on_report(Link& link, uint64_t communicator, std::span<const std::byte> report) {
  std::optional<std::vector<Holdup>> holdups = parse_report(report);
  if (!holdups) return false;
  const auto found = inquiries_.find(communicator);
  const auto group = groups_.find(communicator);
  if (found == inquiries_.end() || group == groups_.end()) return true;
  const auto answer = found->second.answers.find(link.peer_process());
  if (answer == found->second.answers.end()) return true;
  if (answer->second.is_silent)
    logger_.warning(fmt::format("{} answers again, after {}",
                                group->second->members.at(link.peer_process()).name,
                                age(answer->second.asked_at)));
  answer->second = {kNever, false, std::move(*holdups)};
  // Whoever asked about another group may wait for this rank because this rank waits here.
  for (auto& [other, inquiry] : inquiries_) tell_askers(other, inquiry);
  return true;
}

void WaitWatch::tell_askers(uint64_t communicator, Inquiry& inquiry) {
  const auto group = groups_.find(communicator);
  if (group == groups_.end()) return;
  const OperationQueue& queue = group->second->queue;
  std::erase_if(inquiry.askers, [&](const auto& asker) {
    const uint64_t number = asker.second.number;
    const bool is_over = queue.oldest() == nullptr || queue.oldest()->sequence() > number;
    return number < queue.posted_count() && is_over;
  });
  for (auto& [process, asker] : inquiry.askers) {
    const std::vector<Holdup> report = make_report(group->second.get(), asker.number);
    Shape shape = shape_of(report);
    if (shape == asker.told) continue;
    Link& link = transport_.link(process);
    if (!link.is_failed()) link.send_report(communicator, asker.number, write_report(report));
    asker.told = std::move(shape);
  }
}

std::string WaitWatch::explain(uint64_t communicator) const {
  const auto found = inquiries_.find(communicator);
  const auto group = groups_.find(communicator);
  if (found == inquiries_.end() || group == groups_.end() || !found->second.wait) return {};
  const Inquiry& inquiry = found->second;
  std::vector<Holdup> holdups = collect(inquiry);
  const std::vector<Holdup> circle =
      find_circle(transport_.process_id(), inquiry.wait->peers, holdups);
  if (!circle.empty()) return "the ranks wait in a circle: " + join(circle);
  for (const auto& [process, answer] : inquiry.answers)
    if (answer.asked_at != kNever && !answer.is_silent)
      holdups.push_back(
          {process, 0,
           fmt::format("{} has not answered for {}", group->second->members.at(process).name,
                       age(answer.asked_at))});
  return join(holdups);
}

}  // namespace mccl
