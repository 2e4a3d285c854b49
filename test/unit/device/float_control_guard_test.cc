#include "device/float_control_guard.h"

#include <gtest/gtest.h>

#include <cfenv>

namespace mccl {
namespace {

// Volatile operands keep the arithmetic at run time, where the register counts.
float one_third() {
  volatile float numerator = 1.0f;
  volatile float denominator = 3.0f;
  return numerator / denominator;
}

TEST(FloatControlGuard, RoundsToNearestInsideAndAsBeforeOutside) {
  ASSERT_EQ(std::fesetround(FE_DOWNWARD), 0);
  float inside = 0;
  {
    const FloatControlGuard guard;
    inside = one_third();
  }
  const float outside = one_third();
  const int mode = std::fegetround();
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  EXPECT_EQ(mode, FE_DOWNWARD);
  EXPECT_EQ(inside, 0x1.555556p-2f);
  EXPECT_EQ(outside, 0x1.555554p-2f);
}

TEST(FloatControlGuard, Nests) {
  ASSERT_EQ(std::fesetround(FE_TOWARDZERO), 0);
  float between = 0;
  {
    const FloatControlGuard outer;
    { const FloatControlGuard inner; }
    between = one_third();
  }
  const float after = one_third();
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  EXPECT_EQ(between, 0x1.555556p-2f);
  EXPECT_EQ(after, 0x1.555554p-2f);
}

}  // namespace
}  // namespace mccl
