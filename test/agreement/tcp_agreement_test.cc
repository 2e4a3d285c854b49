#include <gtest/gtest.h>

#include <chrono>

#include "support/tcp_group.h"

namespace mccl {
namespace {

TEST(TcpAgreement, Smoke) {
  for (int n : {1, 2, 4}) {
    run_tcp_ranks(n, [n](Communicator& c) {
      for (int64_t count : {0, 2, 1000, 16384, 262144, 1 << 22}) {
        std::vector<float> v(static_cast<size_t>(count));
        int iters = count > 1000000 ? 10 : 200;
        double total = 0;
        for (int i = 0; i < iters; ++i) {
          std::fill(v.begin(), v.end(), static_cast<float>(c.rank() + 1));
          auto t0 = std::chrono::steady_clock::now();
          auto w = c.all_reduce(v.data(), v.data(), count, DataType::Float32, ReduceOp::Sum,
                                {.timeout_ns = 20'000'000'000, .on_complete = {}, .will_wait = true});
          ASSERT_TRUE(w.is_ok()) << w.status().to_string();
          Status s = w.value()->wait();
          total += std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
          ASSERT_TRUE(s.is_ok()) << s.to_string();
          for (float f : v) ASSERT_EQ(f, static_cast<float>(n * (n + 1) / 2));
        }
        if (c.rank() == 0)
          std::printf("n=%d bytes=%ld %.1f us\n", n, count * 4, total / iters * 1e6);
      }
    });
  }
}

}  // namespace
}  // namespace mccl
