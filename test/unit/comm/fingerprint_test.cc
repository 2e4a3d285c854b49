// Law L9: every field of a call is in its fingerprint, and a difference is said in two columns.
#include "comm/fingerprint.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

constexpr CallSummary kCall = {.collective = Collective::AllReduce,
                               .dtype = DataType::Float32,
                               .op = ReduceOp::Sum,
                               .root = 0,
                               .count = 8,
                               .plan_hash = 0x0badcafe};

std::string mismatch_with(const CallSummary& other) {
  const Fingerprint own = pack_fingerprint(kCall);
  const Fingerprint peer = pack_fingerprint(other);
  EXPECT_NE(own, peer);
  return describe_mismatch(3, 0, own, 1, peer);
}

TEST(Fingerprint, UnpacksWhatWasPacked) {
  const CallSummary call{Collective::Broadcast, DataType::Int64, ReduceOp::Max, 5,
                         int64_t{1} << 40,      0xfeedbeef,      0xfadedcab,    true};
  EXPECT_TRUE(unpack_fingerprint(pack_fingerprint(call)) == call);
}

TEST(Fingerprint, NamesTheFieldThatDiffers) {
  constexpr const char* kEnd = "; all ranks must make the same calls in the same order";
  const auto begin = [](const std::string& peer) {
    return "operation 3 differs between rank 0 and rank 1: all_reduce(float32, sum, 8 elements) "
           "against " +
           peer + ": ";
  };
  CallSummary other = kCall;
  other.collective = Collective::Broadcast;
  EXPECT_EQ(mismatch_with(other), begin("broadcast(float32, root 0, 8 elements)") +
                                      "collective all_reduce against broadcast" + kEnd);
  other = kCall;
  other.dtype = DataType::BFloat16;
  EXPECT_EQ(mismatch_with(other), begin("all_reduce(bfloat16, sum, 8 elements)") +
                                      "dtype float32 against bfloat16" + kEnd);
  other = kCall;
  other.op = ReduceOp::Min;
  EXPECT_EQ(mismatch_with(other),
            begin("all_reduce(float32, min, 8 elements)") + "op sum against min" + kEnd);
  other = kCall;
  other.root = 1;
  EXPECT_EQ(mismatch_with(other),
            begin("all_reduce(float32, sum, 8 elements)") + "root 0 against 1" + kEnd);
  other = kCall;
  other.count = 9;
  EXPECT_EQ(mismatch_with(other),
            begin("all_reduce(float32, sum, 9 elements)") + "count 8 against 9" + kEnd);
  other = kCall;
  other.plan_hash = 1;
  EXPECT_EQ(mismatch_with(other), begin("all_reduce(float32, sum, 8 elements)") +
                                      "plan 0badcafe against 00000001" + kEnd);
  other = kCall;
  other.lengths_hash = 1;
  EXPECT_EQ(mismatch_with(other), begin("all_reduce(float32, sum, 8 elements)") +
                                      "lengths of the ranks' blocks 00000000 against 00000001" +
                                      kEnd);
  other = kCall;
  other.is_barrier = true;
  EXPECT_EQ(mismatch_with(other),
            begin("barrier()") + "collective all_reduce against barrier" + kEnd);
}

TEST(Fingerprint, NamesAllFieldsThatDiffer) {
  CallSummary other = kCall;
  other.op = ReduceOp::Max;
  other.count = 7;
  EXPECT_EQ(mismatch_with(other),
            "operation 3 differs between rank 0 and rank 1: all_reduce(float32, sum, 8 elements) "
            "against all_reduce(float32, max, 7 elements): op sum against max, count 8 against 7; "
            "all ranks must make the same calls in the same order");
}

TEST(Fingerprint, HasWordsForValuesThatNobodyKnows) {
  CallSummary other = kCall;
  other.op = static_cast<ReduceOp>(200);
  EXPECT_NE(mismatch_with(other).find("op sum against unknown 200"), std::string::npos);
}

}  // namespace
}  // namespace mccl
