#include "base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mccl {
namespace {

// Levenshtein's distance, one row at a time.
size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<size_t> row(right.size() + 1);
  for (size_t column = 0; column <= right.size(); ++column) row[column] = column;
  for (size_t line = 1; line <= left.size(); ++line) {
    size_t diagonal = row[0];
    row[0] = line;
    for (size_t column = 1; column <= right.size(); ++column) {
      const size_t replaced = diagonal + (left[line - 1] != right[column - 1] ? 1 : 0);
      diagonal = row[column];
      row[column] = std::min({replaced, row[column] + 1, row[column - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view find_nearest_name(std::string_view name, std::span<const std::string_view> names) {
  return *std::min_element(names.begin(), names.end(),
                           [&](std::string_view left, std::string_view right) {
                             return edit_distance(name, left) < edit_distance(name, right);
                           });
}

}  // namespace mccl
