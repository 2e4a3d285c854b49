// What the verbs of the command `mccl` have in common. A verb is a small library of its own folder;
// tools/mccl/main.cc lists the verbs and knows nothing else about them.
//
// Results go to `out`, everything else to `err`. With --json a verb writes one JSON object and
// nothing else to `out`. Every figure says where it comes from (FigureKind).
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "mccl/status.h"

namespace CLI {
class App;
}

namespace mccl {

// TestFailed is nccl-tests': a result was wrong, or slower than was asked for.
enum class ExitCode : int { Ok = 0, No = 1, Usage = 2, Network = 3, Timeout = 4, TestFailed = 7 };

// NotProven, Mismatch and the like: the answer is no. InvalidArgument: usage.
ExitCode exit_code_of(const Status& status);

// "measured", "modelled", "simulated", "extrapolated": the words of tables and of JSON.
enum class FigureKind : uint8_t { Measured, Modelled, Simulated, Extrapolated };
std::string_view figure_kind_name(FigureKind kind);

struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool is_json = false;         // --json
  bool has_colour = false;      // `out` is a terminal and NO_COLOR is unset
  bool shows_progress = false;  // `err` is a terminal

  // `text` emphasised where colours are wanted.
  std::string bold(std::string_view text) const;
};

// Runs a verb whose options have been parsed. Does not throw.
using VerbRun = std::function<ExitCode(Terminal& terminal)>;

struct Verb {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view example;  // lines that can be pasted into a shell
  // Adds options to `app`. What is returned owns their values.
  VerbRun (*declare)(CLI::App& app);
};

// "mccl plan: text" on `err`; the exit code that belongs to the status.
ExitCode report(Terminal& terminal, std::string_view verb, const Status& status);

// "8", "64K", "25M", "1G": binary suffixes, as nccl-tests has them. InvalidArgument says what is
// allowed. parse_byte_list: "8,64K,25M".
Result<int64_t> parse_bytes(std::string_view text);
Result<std::vector<int64_t>> parse_byte_list(std::string_view text);
// The shortest spelling that parse_bytes() reads back: "25M", "1000".
std::string write_bytes(int64_t bytes);

// A whole file; "-" is `standard_input`, unless null. InvalidArgument for what cannot be read, such
// as a directory, and for more than 64 MiB, which is none of the files that verbs read.
Result<std::string> read_whole_file(const std::string& name, std::istream* standard_input);

// InvalidArgument: what the user typed is not allowed.
Status wrong_usage(const std::string& text);
// "--ranks 1: allowed are 2 to 1024", unless `value` lies there.
Status check_range(const char* option, double value, double least, double most);

// For an option that is a 64-bit seed: empty, or what is wrong with the text. The parser would take
// a negative number modulo 2^64.
std::string check_seed(const std::string& text);

// `share` of `width` marks, between 0 and all of them.
std::string draw_bar(double share, int width);

}  // namespace mccl
