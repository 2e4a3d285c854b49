// Either side may make the connection by which the first host leads another one, so that a firewall
// that lets one direction pass hides no host. Who measures, blocks; the others wait in their
// switchboards, which answer it. Every wait has a deadline: the meeting `timeout_ns`, a turn what a
// measurement takes at most.
#include "doctor/doctor_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "doctor/doctor_message.h"
#include "doctor/switchboard.h"

namespace mccl {
namespace {

using Event = Switchboard::Event;

constexpr TimeNs kRetryNs = kNsPerSecond / 4;
constexpr TimeNs kNoticeNs = 5 * kNsPerSecond;
constexpr TimeNs kTurnSlackNs = 5 * kNsPerSecond;
constexpr size_t kFirst = 0;

// What a host does to be connected with another one until it is.
struct Dial {
  SocketAddress peer;
  Switchboard::Id id = 0;  // 0: none is under way
  TimeNs next = 0;
  PairResult failure = {};  // the last one
};

// What both kinds of host have in common.
class Session {
 public:
  Session(const SessionOptions& options, const Clock& clock, Switchboard& switchboard)
      : options_(options), clock_(clock), switchboard_(switchboard) {}

 protected:
  std::string name(size_t host) const { return host_text(options_.hosts[host]); }
  size_t host_count() const { return options_.hosts.size(); }
  TimeNs turn_ns() const { return measure_ns_max(options_.limits) + kTurnSlackNs; }

  // The address was checked when the hosts were resolved.
  SocketAddress address_of(size_t host) const {
    return parse_host(options_.hosts[host].address, options_.port).value();
  }

  // Begins what is due; says when the next one is.
  TimeNs dial_if_due(Dial& dial) {
    if (dial.id != 0) return kNever;
    if (clock_.now() < dial.next) return dial.next;
    dial.id = switchboard_.dial(dial.peer);
    return kNever;
  }
  void note_end(Dial& dial, const Event& event) {
    dial.id = 0;
    dial.next = clock_.now() + kRetryNs;
    dial.failure = event.failure;
  }

  // A peer that measures, of the same job.
  void answer_measure(const Event& event) {
    const DoctorMessage& message = event.message;
    if (message.hosts != options_.host_list || message.to != options_.self ||
        message.from >= host_count())
      return refuse(event.id, fmt::format("{} was started with other hosts: {} here, {} there",
                                          name(options_.self), options_.host_list, message.hosts));
    switchboard_.send(event.id, {.kind = MessageKind::Ready});
    switchboard_.serve(event.id);
  }
  // The peer closes when it has read why.
  void refuse(Switchboard::Id id, const std::string& words) {
    switchboard_.send(id, {.kind = MessageKind::Refuse, .words = words});
  }
  PairResult measure(size_t to) const {
    return measure_pair({.peer = address_of(to),
                         .greeting = {.kind = MessageKind::Measure,
                                      .from = options_.self,
                                      .to = to,
                                      .hosts = options_.host_list}},
                        options_.limits, clock_);
  }
  std::string turn_text(size_t from, size_t to) const {
    return fmt::format("{} measures the way to {}", name(from), name(to));
  }

  const SessionOptions& options_;
  const Clock& clock_;
  Switchboard& switchboard_;
};

class FirstSession final : public Session {
 public:
  FirstSession(const SessionOptions& options, const Clock& clock, Switchboard& switchboard)
      : Session(options, clock, switchboard),
        leads_(options.hosts.size(), 0),
        dials_(options.hosts.size()) {
    report_.host_list = options.host_list;
    report_.port = options.port;
    report_.rate_ratio_max = options.rate_ratio_max;
    report_.answer_ns = options.limits.answer_ns;
    report_.pairs.resize(host_count() * host_count());
    for (const DoctorHost& host : options.hosts) report_.hosts.push_back({.host = host});
    report_.hosts[kFirst].has_come = true;
    report_.hosts[kFirst].note = options.listen_place.note;
    report_.hosts[kFirst].host.address = options.listen_place.address;
    for (size_t host = 1; host < host_count(); ++host) dials_[host].peer = address_of(host);
  }

  SessionResult run() {
    meet();
    for (const auto& [from, to] : list_turns(host_count()))
      if (is_here(from) && is_here(to)) take_turn(from, to);
    SessionResult result;
    result.report = std::move(report_);
    result.findings = find_faults(*result.report);
    result.code = exit_code_of(*result.report, result.findings);
    for (const Switchboard::Id lead : leads_)
      switchboard_.send(lead, {.kind = MessageKind::Bye, .number = static_cast<int>(result.code)});
    return result;
  }

 private:
  bool is_here(size_t host) const {
    return report_.hosts[host].has_come && !report_.hosts[host].is_lost;
  }
  bool have_all_come() const {
    return std::all_of(report_.hosts.begin(), report_.hosts.end(),
                       [](const HostReport& host) { return host.has_come; });
  }

  void meet();
  void take_turn(size_t from, size_t to);
  void handle(const Event& event);
  void welcome(const Event& event);
  void note_other_list(const DoctorMessage& message);
  void on_end(const Event& event);
  std::string waiting_text() const;

  NetworkReport report_;
  std::vector<Switchboard::Id> leads_;  // by host; 0: none
  std::vector<Dial> dials_;             // by host
  size_t from_ = 0;                     // whose Result is waited for
  size_t to_ = 0;
  bool has_result_ = false;
};

void FirstSession::meet() {
  const TimeNs start = clock_.now();
  const TimeNs deadline = deadline_after(start, options_.timeout_ns);
  TimeNs next_notice = deadline_after(start, kNoticeNs);
  while (!have_all_come() && clock_.now() < deadline) {
    TimeNs next = std::min(deadline, next_notice);
    for (size_t host = 1; host < host_count(); ++host)
      if (!report_.hosts[host].has_come) next = std::min(next, dial_if_due(dials_[host]));
    for (const Event& event : switchboard_.wait(next)) handle(event);
    if (clock_.now() >= next_notice && !have_all_come()) {
      next_notice = deadline_after(clock_.now(), kNoticeNs);
      options_.notice(waiting_text());
    }
  }
  report_.waited_ns = clock_.now() - start;
  for (size_t host = 1; host < host_count(); ++host) {
    report_.hosts[host].dial = dials_[host].failure;
    switchboard_.close(dials_[host].id);
  }
}

std::string FirstSession::waiting_text() const {
  std::string text;
  for (size_t host = 1; host < host_count(); ++host) {
    if (report_.hosts[host].has_come) continue;
    const Outcome outcome = dials_[host].failure.outcome;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name(host),
                        outcome == Outcome::NotMeasured ? "no answer yet" : outcome_name(outcome));
  }
  return "still waiting for " + text;
}

void FirstSession::take_turn(size_t from, size_t to) {
  options_.progress(turn_text(from, to));
  for (const Switchboard::Id lead : leads_)
    switchboard_.send(lead, {.kind = MessageKind::Turn, .from = from, .to = to});
  if (from == kFirst) {
    report_.pair(from, to) = measure(to);
    return;
  }
  from_ = from;
  to_ = to;
  has_result_ = false;
  const TimeNs deadline = deadline_after(clock_.now(), turn_ns());
  while (!has_result_ && is_here(from) && clock_.now() < deadline)
    for (const Event& event : switchboard_.wait(deadline)) handle(event);
  if (!has_result_ && is_here(from)) {
    report_.hosts[from].is_lost = true;
    switchboard_.close(leads_[from]);
  }
}

void FirstSession::handle(const Event& event) {
  if (event.kind == Event::Kind::Ended) return on_end(event);
  if (event.kind == Event::Kind::Connected)
    return switchboard_.send(event.id, {.kind = MessageKind::First, .hosts = options_.host_list});
  if (event.message.kind == MessageKind::Measure) return answer_measure(event);
  if (event.message.kind == MessageKind::Control) return welcome(event);
  const DoctorMessage& message = event.message;
  if (message.kind == MessageKind::Refuse) {
    for (Dial& dial : dials_)
      if (dial.id == event.id)
        note_end(dial, {.failure = {.outcome = Outcome::Broken, .words = message.words}});
  } else if (message.kind == MessageKind::Result && message.from == from_ && message.to == to_ &&
             leads_[from_] == event.id) {
    report_.pair(from_, to_) = message.result;
    has_result_ = true;
    return;
  }
  if (std::find(leads_.begin(), leads_.end(), event.id) == leads_.end())
    switchboard_.close(event.id);
}

void FirstSession::welcome(const Event& event) {
  const DoctorMessage& message = event.message;
  if (message.hosts != options_.host_list) {
    note_other_list(message);
    return refuse(event.id, fmt::format("{} was started with --hosts {}, this host with {}: they "
                                        "must be alike on all hosts",
                                        name(kFirst), options_.host_list, message.hosts));
  }
  if (message.from == kFirst || message.from >= host_count())
    return refuse(event.id, fmt::format("{} is here already: --self is wrong", name(kFirst)));
  HostReport& host = report_.hosts[message.from];
  if (host.has_come) return switchboard_.close(event.id);
  host.has_come = true;
  host.note = message.words;
  leads_[message.from] = event.id;
  switchboard_.keep(event.id);
  switchboard_.send(event.id, {.kind = MessageKind::Welcome});
  Dial& dial = dials_[message.from];
  if (dial.id != event.id) switchboard_.close(dial.id);
  dial.id = 0;
}

// Which host it is, its own list tells.
void FirstSession::note_other_list(const DoctorMessage& message) {
  const Result<std::vector<std::string>> names = parse_host_list(message.hosts);
  if (!names.is_ok() || message.from >= names.value().size()) return;
  for (HostReport& host : report_.hosts)
    if (host.host.name == names.value()[message.from]) host.other_list = message.hosts;
}

void FirstSession::on_end(const Event& event) {
  for (size_t host = 1; host < host_count(); ++host) {
    if (leads_[host] == event.id) {
      report_.hosts[host].is_lost = true;
      leads_[host] = 0;
    } else if (dials_[host].id == event.id) {
      note_end(dials_[host], event);
    }
  }
}

class OtherSession final : public Session {
 public:
  OtherSession(const SessionOptions& options, const Clock& clock, Switchboard& switchboard)
      : Session(options, clock, switchboard) {
    dial_.peer = address_of(kFirst);
  }

  Result<SessionResult> run() {
    const TimeNs start = clock_.now();
    TimeNs next_notice = deadline_after(start, kNoticeNs);
    deadline_ = deadline_after(start, options_.timeout_ns);
    while (!code_ && failure_.is_ok() && clock_.now() < deadline_) {
      TimeNs next = deadline_;
      if (lead_ == 0) next = std::min({next, dial_if_due(dial_), next_notice});
      for (const Event& event : switchboard_.wait(next)) handle(event);
      if (clock_.now() >= next_notice && lead_ == 0) {
        next_notice = deadline_after(clock_.now(), kNoticeNs);
        options_.notice(fmt::format("still waiting for {}, the first of --hosts", name(kFirst)));
      }
    }
    if (code_) return SessionResult{.code = *code_, .report = {}, .findings = {}};
    return failure_.is_ok() ? late() : failure_;
  }

 private:
  void handle(const Event& event);
  void handle_lead(const DoctorMessage& message);
  void say_control(Switchboard::Id id) {
    switchboard_.send(id, {.kind = MessageKind::Control,
                           .from = options_.self,
                           .hosts = options_.host_list,
                           .words = options_.listen_place.note});
  }
  Status late() const;

  Dial dial_;
  Switchboard::Id lead_ = 0;  // by which the first host leads; 0: not yet
  TimeNs deadline_ = 0;
  std::optional<ExitCode> code_;
  Status failure_;
};

Status OtherSession::late() const {
  if (lead_ != 0)
    return Status(
        StatusCode::Timeout,
        fmt::format("{}, the first of --hosts, has said nothing for {} s: see whether its "
                    "doctor is stopped",
                    name(kFirst), turn_ns() / kNsPerSecond));
  const PairResult& seen = dial_.failure;
  return Status(
      StatusCode::Network,
      fmt::format("{} and {}, the first of --hosts, did not meet in {:.3g} s. From here: {}. From "
                  "there no connection came either: {} tells what it saw",
                  name(options_.self), name(kFirst),
                  static_cast<double>(options_.timeout_ns) / static_cast<double>(kNsPerSecond),
                  seen.words.empty() ? "no answer" : seen.words, name(kFirst)));
}

void OtherSession::handle(const Event& event) {
  if (event.kind == Event::Kind::Connected) return say_control(event.id);
  if (event.kind == Event::Kind::Ended) {
    if (event.id == lead_)
      failure_ = Status(StatusCode::PeerLost,
                        fmt::format("{}, the first of --hosts, is gone before the end: {}",
                                    name(kFirst), event.failure.words));
    else if (event.id == dial_.id)
      note_end(dial_, event);
    return;
  }
  const DoctorMessage& message = event.message;
  if (event.id == lead_) return handle_lead(message);
  switch (message.kind) {
    case MessageKind::Measure:
      return answer_measure(event);
    case MessageKind::First:
      if (message.hosts == options_.host_list) return say_control(event.id);
      return refuse(event.id, fmt::format("{} was started with --hosts {}", name(options_.self),
                                          options_.host_list));
    case MessageKind::Welcome:
      lead_ = event.id;
      switchboard_.keep(lead_);
      if (dial_.id != lead_) switchboard_.close(dial_.id);
      deadline_ = deadline_after(clock_.now(), options_.timeout_ns + turn_ns());
      return;
    case MessageKind::Refuse:
      if (event.id == dial_.id) failure_ = Status(StatusCode::InvalidArgument, message.words);
      return;
    case MessageKind::Control:
    case MessageKind::Turn:
    case MessageKind::Result:
    case MessageKind::Bye:
    case MessageKind::Ready:
    case MessageKind::Received:
      return switchboard_.close(event.id);
  }
}

void OtherSession::handle_lead(const DoctorMessage& message) {
  if (message.kind == MessageKind::Bye && message.number <= static_cast<int>(ExitCode::Timeout)) {
    code_ = static_cast<ExitCode>(message.number);
  } else if (message.kind == MessageKind::Turn && message.from < host_count() &&
             message.to < host_count()) {
    options_.progress(turn_text(message.from, message.to));
    if (message.from == options_.self)
      switchboard_.send(lead_, {.kind = MessageKind::Result,
                                .from = message.from,
                                .to = message.to,
                                .result = measure(message.to)});
    // The first host, too, waits for a turn as long.
    deadline_ = deadline_after(clock_.now(), 2 * turn_ns());
  }
}

}  // namespace

Result<SessionResult> run_session(const SessionOptions& options, const Clock& clock) {
  Result<SocketAddress> own = parse_host(options.listen_place.address, options.port);
  if (!own.is_ok()) return own.status();
  Result<std::unique_ptr<Switchboard>> switchboard =
      Switchboard::listen(own.value(), options.limits, clock);
  if (!switchboard.is_ok()) return switchboard.status();
  if (options.self == kFirst) return FirstSession(options, clock, *switchboard.value()).run();
  return OtherSession(options, clock, *switchboard.value()).run();
}

}  // namespace mccl
