#include "planner/algorithm_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace mccl {
namespace {

constexpr size_t kListNameCountMax = 64;

// Words that scripts written for NCCL carry in NCCL_ALGO; no program of ours is meant by them.
constexpr std::array<std::string_view, 7> kForeignNames = {
    "collnet", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat", "msccl"};

// NCCL's word for what comes from files.
constexpr std::string_view kLoadedWord = "msccl";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return lower;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view name_after_collective(const Algorithm& algorithm) {
  const std::string_view prefix = collective_name(algorithm.collective);
  if (!algorithm.name.starts_with(prefix) || algorithm.name.size() <= prefix.size() + 1) return {};
  return algorithm.name.substr(prefix.size() + 1);
}

// "two_level_ring:20" in its parts; size 0: without one, -1: not a size.
struct SizedName {
  std::string_view base;
  int group_size = 0;
};

SizedName split_size(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return {name, 0};
  const std::string_view digits = name.substr(colon + 1);
  int size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  const bool is_size = error == std::errc() && end == digits.data() + digits.size() && size > 0;
  return {name.substr(0, colon), is_size ? size : -1};
}

bool matches_any(std::string_view name, std::span<const Algorithm* const> algorithms) {
  return std::any_of(algorithms.begin(), algorithms.end(),
                     [&](const Algorithm* algorithm) { return name_matches(name, *algorithm); });
}

Status check_name(std::string_view name, std::span<const Algorithm* const> algorithms) {
  if (name.empty()) return {StatusCode::InvalidArgument, "MCCL_ALGO: a name is empty"};
  if (name.find('^') != std::string_view::npos)
    return {StatusCode::InvalidArgument,
            fmt::format("MCCL_ALGO: '^' in \"{}\"; one leading '^' excludes the whole list", name)};
  if (matches_any(name, algorithms)) return Status::ok();
  if (name.find_first_of(":;") != std::string_view::npos)
    return {StatusCode::InvalidArgument,
            fmt::format("MCCL_ALGO: \"{}\"; lists per collective are not served, name the programs "
                        "instead, for example all_reduce_ring",
                        name)};
  if (std::find(kForeignNames.begin(), kForeignNames.end(), name) != kForeignNames.end())
    return Status::ok();
  std::string known;
  for (const Algorithm* algorithm : algorithms)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", algorithm->name);
  return {StatusCode::InvalidArgument,
          fmt::format("MCCL_ALGO: no program is called \"{}\"; there are {}", name, known)};
}

}  // namespace

Result<AlgorithmList> parse_algorithm_list(std::string_view text,
                                           std::span<const Algorithm* const> algorithms) {
  AlgorithmList list;
  text = trim(text);
  if (text.empty()) return list;
  if (text.front() == '^') {
    list.is_exclusion = true;
    text.remove_prefix(1);
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string name = lower_case(trim(text.substr(begin, end - begin)));
    MCCL_RETURN_IF_ERROR(check_name(name, algorithms));
    list.names.push_back(std::move(name));
    if (list.names.size() > kListNameCountMax)
      return Status(StatusCode::InvalidArgument,
                    fmt::format("MCCL_ALGO: more than {} names", kListNameCountMax));
    begin = end + 1;
  }
  return list;
}

std::string to_string(const AlgorithmList& list) {
  return fmt::format("{}{}", list.is_exclusion ? "^" : "", fmt::join(list.names, ","));
}

bool name_matches(std::string_view name, const Algorithm& algorithm) {
  const auto [base, group_size] = split_size(name);
  if (algorithm.loaded != nullptr)
    return group_size == 0 && (base == algorithm.name || base == kLoadedWord);
  const bool is_family = algorithm.groups.default_size != nullptr;
  if (group_size < 0 || (group_size > 0 && !is_family)) return false;
  const std::string_view short_name = name_after_collective(algorithm);
  if (base == algorithm.name || (!short_name.empty() && base == short_name)) return true;
  return base == "tree" && (short_name == "recursive_doubling" || short_name.ends_with("_tree"));
}

bool list_mentions(const AlgorithmList& list, const ProgramChoice& choice) {
  return std::any_of(list.names.begin(), list.names.end(), [&](const std::string& name) {
    const int group_size = split_size(name).group_size;
    return name_matches(name, *choice.algorithm) &&
           (group_size == 0 || group_size == choice.group_size);
  });
}

std::vector<int> named_group_sizes(const AlgorithmList& list, const Algorithm& family) {
  std::vector<int> sizes;
  for (const std::string& name : list.names)
    if (const int size = split_size(name).group_size; size > 0 && name_matches(name, family))
      sizes.push_back(size);
  return sizes;
}

std::vector<std::string> unmatched_names(const AlgorithmList& list,
                                         std::span<const Algorithm* const> algorithms) {
  std::vector<std::string> unmatched;
  for (const std::string& name : list.names)
    if (!matches_any(name, algorithms)) unmatched.push_back(name);
  return unmatched;
}

}  // namespace mccl
