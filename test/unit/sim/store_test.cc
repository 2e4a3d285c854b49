#include "sim/store.h"

#include <gtest/gtest.h>

namespace mccl::sim {
namespace {

TEST(SimStore, FindsWhatWasSet) {
  SimStore store;
  ASSERT_TRUE(store.set("rank/0", "sim://0").is_ok());
  EXPECT_EQ(store.get("rank/0", 0).value(), "sim://0");
}

TEST(SimStore, LooksOnceWhateverTheTimeout) {
  SimStore store;
  EXPECT_EQ(store.get("rank/1", -1).value(), std::nullopt);
  EXPECT_EQ(store.get("rank/1", INT64_MAX).value(), std::nullopt);
}

}  // namespace
}  // namespace mccl::sim
