// Programmer errors: MCCL_CHECK prints the condition, both values and the place, and aborts. It is
// on in release builds. Operating errors (network, bad input) are Statuses, never checks.
#pragma once

#include <sstream>
#include <string>

namespace mccl {

// Writes one line to standard error and aborts. Safe to call from any thread.
[[noreturn]] void fail_check(const char* file, int line, const char* condition,
                             const std::string& detail);

}  // namespace mccl

#define MCCL_CHECK(condition)                                 \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      ::mccl::fail_check(__FILE__, __LINE__, #condition, ""); \
  } while (false)

// MCCL_CHECK_EQ(a, b): aborts unless a == b, and prints both. Each operand is evaluated once.
#define MCCL_CHECK_EQ(left, right) MCCL_CHECK_COMPARE(==, left, right)
#define MCCL_CHECK_LE(left, right) MCCL_CHECK_COMPARE(<=, left, right)
#define MCCL_CHECK_LT(left, right) MCCL_CHECK_COMPARE(<, left, right)

#define MCCL_CHECK_COMPARE(compare, left, right)                                               \
  do {                                                                                         \
    const auto& mccl_left_ = (left);                                                           \
    const auto& mccl_right_ = (right);                                                         \
    if (!(mccl_left_ compare mccl_right_)) [[unlikely]] {                                      \
      std::ostringstream mccl_text_;                                                           \
      mccl_text_ << mccl_left_ << " against " << mccl_right_;                                  \
      ::mccl::fail_check(__FILE__, __LINE__, #left " " #compare " " #right, mccl_text_.str()); \
    }                                                                                          \
  } while (false)
