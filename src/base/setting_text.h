// How the values of settings are spelled: numbers, byte counts, seconds, switches. For the table in
// config.cc.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace mccl {

// The whole of `text` as a number, or nothing.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// ASCII letters alone.
std::string lower_case(std::string_view text);

// "512k", "4M", "1G" or without a suffix; false unless it lies within [min, max]. `text` is not
// empty.
bool parse_byte_count(std::string_view text, int64_t min, int64_t max, int64_t* bytes);
// The shortest spelling that parse_byte_count() reads back.
std::string write_byte_count(int64_t bytes);

// Seconds with a fraction, rounded to milliseconds; false outside 0.001 to 10000000.
bool parse_seconds(std::string_view text, TimeNs* time);
std::string write_seconds(TimeNs time);

// `on`, or 0 or off; false for anything else.
bool parse_switch(std::string_view text, std::string_view on, bool* value);

}  // namespace mccl
