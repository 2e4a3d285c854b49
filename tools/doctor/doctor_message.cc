#include "doctor/doctor_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace mccl {
namespace {

constexpr std::string_view kGreeting = "mccl-doctor/1";
constexpr std::string_view kEmpty = "-";
constexpr size_t kWordsBytesMax = 1024;
constexpr int64_t kNumberMax = int64_t{1} << 50;

// The fields of a line, in this order.
enum Field : unsigned { From = 1, To = 2, Number = 4, Hosts = 8, Figures = 16, Words = 32 };

struct Form {
  MessageKind kind;
  std::string_view name;
  unsigned fields;
};

constexpr std::array kForms = {Form{MessageKind::Control, "control", From | Hosts | Words},
                               Form{MessageKind::First, "first", Hosts},
                               Form{MessageKind::Welcome, "welcome", 0},
                               Form{MessageKind::Refuse, "refuse", Words},
                               Form{MessageKind::Turn, "turn", From | To},
                               Form{MessageKind::Result, "result", From | To | Figures | Words},
                               Form{MessageKind::Bye, "bye", Number},
                               Form{MessageKind::Measure, "measure", From | To | Hosts},
                               Form{MessageKind::Ready, "ready", 0},
                               Form{MessageKind::Received, "received", Number}};

bool is_printable(char letter) {
  return letter >= ' ' && letter <= '~';
}

// One word: the name of an interface or an outcome may have a space, or be empty.
std::string to_word(std::string_view text) {
  if (text.empty()) return std::string(kEmpty);
  std::string word(text);
  for (char& letter : word) letter = is_printable(letter) && letter != ' ' ? letter : '_';
  return word;
}

std::string to_words(std::string_view text) {
  std::string words(text.substr(0, kWordsBytesMax));
  for (char& letter : words) letter = is_printable(letter) ? letter : '?';
  return words;
}

// Takes words from the front of a line; after the first fault everything is a fault.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  bool is_good() const { return is_good_; }
  void fail() { is_good_ = false; }

  std::string_view word() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view taken = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (taken.empty()) fail();
    return taken;
  }
  std::string text() {
    const std::string_view taken = word();
    return taken == kEmpty ? std::string() : std::string(taken);
  }
  int64_t number(int64_t most) {
    const std::string_view digits = word();
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || stop != digits.data() + digits.size() || value < 0 || value > most)
      fail();
    return value;
  }
  size_t host_index() {
    const auto index = static_cast<size_t>(number(kHostsMax - 1));
    return is_good_ ? index : 0;
  }
  std::string_view rest() {
    const std::string_view taken = rest_;
    rest_ = {};
    return taken;
  }

 private:
  std::string_view rest_;
  bool is_good_ = true;
};

void read_figures(LineReader& reader, PairResult& result) {
  std::string name(reader.word());
  std::replace(name.begin(), name.end(), '_', ' ');
  const std::optional<Outcome> outcome = find_outcome(name);
  if (!outcome) return reader.fail();
  result.outcome = *outcome;
  result.round_trip_ns = reader.number(kNumberMax);
  result.bytes_per_second = reader.number(kNumberMax);
  result.packet_bytes_max = reader.number(kNumberMax);
  result.segment_bytes_max = reader.number(kNumberMax);
  result.interface = reader.text();
  result.from_address = reader.text();
  result.to_address = reader.text();
}

std::string write_figures(const PairResult& result) {
  return fmt::format(" {} {} {} {} {} {} {} {}", to_word(outcome_name(result.outcome)),
                     result.round_trip_ns, result.bytes_per_second, result.packet_bytes_max,
                     result.segment_bytes_max, to_word(result.interface),
                     to_word(result.from_address), to_word(result.to_address));
}

}  // namespace

std::string write_message(const DoctorMessage& message) {
  const Form& form = *std::find_if(kForms.begin(), kForms.end(),
                                   [&](const Form& one) { return one.kind == message.kind; });
  std::string line = fmt::format("{} {}", kGreeting, form.name);
  if (form.fields & From) line += fmt::format(" {}", message.from);
  if (form.fields & To) line += fmt::format(" {}", message.to);
  if (form.fields & Number) line += fmt::format(" {}", message.number);
  if (form.fields & Hosts) line += " " + to_word(message.hosts);
  if (form.fields & Figures) line += write_figures(message.result);
  if (form.fields & Words)
    line += " " + to_words(form.fields & Figures ? message.result.words : message.words);
  return line + "\n";
}

std::optional<DoctorMessage> parse_message(std::string_view line) {
  if (line.size() > kLineBytesMax || !std::all_of(line.begin(), line.end(), is_printable))
    return std::nullopt;
  LineReader reader(line);
  if (reader.word() != kGreeting) return std::nullopt;
  const std::string_view name = reader.word();
  const auto form =
      std::find_if(kForms.begin(), kForms.end(), [&](const Form& one) { return one.name == name; });
  if (form == kForms.end()) return std::nullopt;
  DoctorMessage message{.kind = form->kind};
  if (form->fields & From) message.from = reader.host_index();
  if (form->fields & To) message.to = reader.host_index();
  if (form->fields & Number) message.number = reader.number(kNumberMax);
  if (form->fields & Hosts) message.hosts = reader.text();
  if (form->fields & Figures) read_figures(reader, message.result);
  if (form->fields & Words)
    (form->fields & Figures ? message.result.words : message.words) =
        reader.rest().substr(0, kWordsBytesMax);
  if (!reader.is_good() || !reader.rest().empty() || message.hosts.size() > kHostListBytesMax)
    return std::nullopt;
  return message;
}

}  // namespace mccl
