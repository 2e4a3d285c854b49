#include "fit/perf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "verb/link_options.h"

namespace mccl {
namespace {

using Json = nlohmann::json;
using Fields = std::vector<std::string_view>;

constexpr size_t kFaultsMax = 20;
constexpr int kRanksMax = 1'000'000;

Fields split(std::string_view line) {
  constexpr std::string_view kSeparators = " \t\r,";
  Fields fields;
  while (true) {
    const size_t begin = line.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return fields;
    const size_t end = std::min(line.find_first_of(kSeparators, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// "all_reduce_perf", "AllReduce", "all_reduce".
std::optional<Collective> find_named_collective(std::string_view text) {
  std::string name;
  for (const char letter : text) {
    const bool is_capital = letter >= 'A' && letter <= 'Z';
    if (is_capital && !name.empty()) name += '_';
    name += is_capital ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  if (name.ends_with("_perf")) name.resize(name.size() - 5);
  return find_collective(name);
}

class Reader {
 public:
  Reader(const std::string& file_name, int rank_count)
      : file_name_(file_name), given_rank_count_(rank_count) {}

  Result<std::vector<PerfRow>> read(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && text[first] == '{')
      read_json(text);
    else
      read_lines(text);
    if (faults_.empty() && rows_.empty()) add_fault(0, "holds no row with a size and a time");
    if (faults_.empty()) return std::move(rows_);
    std::string message;
    for (const std::string& fault : faults_) message += (message.empty() ? "" : "\n") + fault;
    return Status(StatusCode::InvalidArgument, message);
  }

 private:
  void add_fault(int line, const std::string& text) {
    if (faults_.size() == kFaultsMax) return;
    faults_.push_back(line > 0 ? fmt::format("{}:{}: {}", file_name_, line, text)
                               : fmt::format("{}: {}", file_name_, text));
  }

  void add_row(int line, Collective collective, int rank_count, int64_t bytes, double time_us) {
    if (rank_count <= 0) rank_count = given_rank_count_;
    if (bytes <= 0 || time_us <= 0) return;
    if (rank_count <= 0)
      add_fault(line, "does not say how many ranks measured it; give --ranks");
    else if (rank_count < 2 || rank_count > kRanksMax)
      add_fault(line, fmt::format("{} ranks: a model of the network needs 2 to {}", rank_count,
                                  kRanksMax));
    else
      rows_.push_back({collective, rank_count, bytes, time_us, kind_});
  }

  void read_lines(std::string_view text) {
    int line = 0;
    while (!text.empty() && !is_unknown_) {
      const size_t end = std::min(text.find('\n'), text.size());
      read_line(++line, text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void read_line(int line, std::string_view text) {
    const Fields fields = split(text);
    if (fields.empty()) return;
    const char first = fields[0][0];
    if (first == '#')
      read_comment(fields);
    else if (first >= '0' && first <= '9')
      columns_.empty() ? read_nccl_row(line, fields) : read_table_row(line, fields);
    else
      read_columns(line, fields);
  }

  void read_comment(const Fields& fields) {
    if (fields.size() >= 5 && fields[1] == "Collective" && fields[3] == "starting:")
      collective_ = find_named_collective(fields[4]).value_or(collective_);
    if (fields.size() >= 3 && fields[1] == "Using" && fields[2] == "devices") counted_ranks_ = 0;
    if (fields.size() >= 3 && fields[1] == "Rank") ++counted_ranks_;
  }

  void read_nccl_row(int line, const Fields& fields) {
    constexpr size_t kTime = 5;
    if (fields.size() < 12)
      return add_fault(line, fmt::format("{} fields; a row of nccl-tests has 12 or more, and a "
                                         "table of other columns needs a line with their names",
                                         fields.size()));
    const auto bytes = parse_number<int64_t>(fields[0]);
    const auto time_us = parse_number<double>(fields[kTime]);
    if (!bytes || !time_us)
      return add_fault(line, fmt::format("size \"{}\" or time \"{}\" is not a number", fields[0],
                                         fields[kTime]));
    add_row(line, collective_, counted_ranks_, *bytes, *time_us);
  }

  void read_columns(int line, const Fields& fields) {
    columns_.assign(fields.begin(), fields.end());
    const auto has = [&](std::string_view name) {
      return std::find(columns_.begin(), columns_.end(), name) != columns_.end();
    };
    if (has("size") && (has("time") || has("busbw"))) return;
    is_unknown_ = true;
    add_fault(line,
              "is no line of nccl-tests and names neither size and time nor size and busbw; known "
              "columns are ranks, size, time and busbw");
  }

  void read_table_row(int line, const Fields& fields) {
    if (fields.size() != columns_.size())
      return add_fault(line,
                       fmt::format("{} fields under {} names", fields.size(), columns_.size()));
    double size = 0, ranks = 0, time_us = 0, bus = 0;
    for (size_t index = 0; index < fields.size(); ++index) {
      double* const place = columns_[index] == "size"    ? &size
                            : columns_[index] == "ranks" ? &ranks
                            : columns_[index] == "time"  ? &time_us
                            : columns_[index] == "busbw" ? &bus
                                                         : nullptr;
      if (place == nullptr) continue;
      const auto value = parse_number<double>(fields[index]);
      if (!value || *value < 0 || *value > 1e15)
        return add_fault(line, fmt::format("{} \"{}\" is not a number that can be", columns_[index],
                                           fields[index]));
      *place = *value;
    }
    const int rank_count =
        ranks > 0 && ranks <= kRanksMax ? static_cast<int>(ranks) : given_rank_count_;
    if (time_us == 0 && bus > 0 && rank_count > 1)
      time_us = bus_factor(collective_, rank_count) * size / (bus * 1e3);
    add_row(line, collective_, rank_count, static_cast<int64_t>(size), time_us);
  }

  void read_json(std::string_view text) {
    const Json root = Json::parse(text, nullptr, false);
    if (root.is_discarded()) return add_fault(0, "begins like JSON and is not");
    try {
      root.contains("results") ? read_nccl_json(root) : read_our_json(root);
    } catch (const Json::exception& error) {
      add_fault(0, fmt::format("JSON of an unknown shape: {}", error.what()));
    }
  }

  void read_nccl_json(const Json& root) {
    int rank_count = 0;
    if (root.contains("config") && root["config"].contains("devices"))
      rank_count = static_cast<int>(root["config"]["devices"].size());
    for (const Json& result : root.at("results"))
      add_row(0, collective_, rank_count, result.at("size").get<int64_t>(),
              result.at("out_of_place").at("time").get<double>());
  }

  void read_our_json(const Json& root) {
    if (root.contains("collective")) {
      const std::string name = root["collective"].get<std::string>();
      const auto collective = find_named_collective(name);
      if (!collective) return add_fault(0, fmt::format("collective \"{}\" is unknown", name));
      collective_ = *collective;
    }
    const std::string kind = root.value("kind", std::string("measured"));
    for (const FigureKind one : {FigureKind::Modelled, FigureKind::Simulated})
      if (kind == figure_kind_name(one)) kind_ = one;
    const int ranks = root.value("ranks", 0);
    for (const Json& row : root.at("rows"))
      add_row(0, collective_, row.value("ranks", ranks), row.at("bytes").get<int64_t>(),
              row.at("time_us").get<double>());
  }

  const std::string& file_name_;
  int given_rank_count_;
  Collective collective_ = Collective::AllReduce;
  FigureKind kind_ = FigureKind::Measured;
  int counted_ranks_ = 0;
  std::vector<std::string> columns_;
  bool is_unknown_ = false;  // more lines would only be more faults
  std::vector<PerfRow> rows_;
  std::vector<std::string> faults_;
};

}  // namespace

Result<std::vector<PerfRow>> parse_perf_file(std::string_view text, const std::string& file_name,
                                             int rank_count) {
  return Reader(file_name, rank_count).read(text);
}

}  // namespace mccl
