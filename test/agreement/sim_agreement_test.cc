#include <gtest/gtest.h>

#include <cstring>

#include "support/sim_group.h"

namespace mccl {
namespace {

TEST(SimAgreement, SmokeAllReduce) {
  for (int n : {1, 2, 3, 4, 5}) {
    SimGroup group(n, {});
    for (int64_t count : {0, 1, 5, 1000, 1000003}) {
      std::vector<std::vector<float>> data;
      std::vector<std::shared_ptr<Work>> works;
      for (int r = 0; r < n; ++r) {
        data.emplace_back(static_cast<size_t>(count), static_cast<float>(r + 1));
      }
      for (int r = 0; r < n; ++r) {
        auto w = group.communicator(r).all_reduce(data[static_cast<size_t>(r)].data(),
                                                  data[static_cast<size_t>(r)].data(), count,
                                                  DataType::Float32, ReduceOp::Sum);
        ASSERT_TRUE(w.is_ok()) << w.status().to_string();
        works.push_back(w.value());
      }
      ASSERT_TRUE(group.run(works)) << n << " " << count;
      for (auto& w : works) ASSERT_TRUE(w->status().is_ok()) << w->status().to_string();
      for (auto& v : data)
        for (float f : v) ASSERT_EQ(f, static_cast<float>(n * (n + 1) / 2));
      std::printf("n=%d count=%ld t=%ld us\n", n, count, group.world().clock().now() / 1000);
    }
    for (auto& p : group.communicator(0).stats().programs)
      std::printf("  %s %lu %lu %s\n", p.program.c_str(), p.calls, p.bytes, p.reason.c_str());
  }
}

}  // namespace
}  // namespace mccl
