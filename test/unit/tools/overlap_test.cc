// The paper's step (MCCL, arXiv 2610.39029, sections 5.1, 5.2 and 8) in virtual time. All figures
// are those of a run: virtual time repeats to the nanosecond.
#include <gtest/gtest.h>

#include "overlap/overlap_real.h"
#include "overlap/overlap_report.h"

namespace mccl {
namespace {

StepRequest paper_step(int rank_count, int bucket_count, double backward_ms) {
  return {.link = choose_link({.link = "paper"}).value(),
          .rank_count = rank_count,
          .bucket_count = bucket_count,
          .backward_ns = static_cast<TimeNs>(backward_ms * 1e6)};
}

double to_ms(TimeNs time_ns) {
  return static_cast<double>(time_ns) / 1e6;
}

TEST(Overlap, HidesAllButTheLastBucketAtFourRanks) {
  const StepRequest request = paper_step(4, 18, 1090);
  const OverlapReport report =
      make_overlap_report(request, {StepMode::Compute, StepMode::Communication,
                                    StepMode::Overlapped, StepMode::Serialized})
          .value();
  EXPECT_NEAR(report.hidden_share(StepMode::Overlapped), hidden_bound(request), 0.01);
  EXPECT_LE(to_ms(report.step_ns(StepMode::Overlapped) - report.step_ns(StepMode::Compute)), 45);
  EXPECT_NEAR(report.hidden_share(StepMode::Serialized), 0, 0.01);
  // The host waits for nothing: the device's stream does.
  const StepReport& step = report.steps.at(StepMode::Overlapped);
  EXPECT_EQ(step.host_waits, 0);
  EXPECT_EQ(step.host_wait_ns, 0);
  EXPECT_EQ(step.copies, 0);
  EXPECT_GE(step.device_waits, 1);
  for (size_t bucket = 0; bucket + 1 < step.averaged_ns.size(); ++bucket)
    EXPECT_LT(step.averaged_ns[bucket], step.compute_end_ns) << bucket;
  EXPECT_GT(step.averaged_ns.back(), step.compute_end_ns);
}

TEST(Overlap, HidesAllButTheLastBucketAtTwentyFourRanks) {
  const StepRequest request = paper_step(24, 6, 363.3);
  const OverlapReport report =
      make_overlap_report(request,
                          {StepMode::Compute, StepMode::Communication, StepMode::Overlapped})
          .value();
  EXPECT_NEAR(report.hidden_share(StepMode::Overlapped), hidden_bound(request), 0.01);
  EXPECT_LE(to_ms(report.step_ns(StepMode::Overlapped) - report.step_ns(StepMode::Compute)), 45);
}

TEST(Overlap, SimplerDesignsHideLess) {
  const StepRequest request = paper_step(4, 6, 363.3);
  const OverlapReport report =
      make_overlap_report(
          request, {StepMode::Compute, StepMode::Communication, StepMode::Overlapped,
                    StepMode::StagedOwnQueue, StepMode::StagedAndWaited, StepMode::DrainPerBucket,
                    StepMode::CopyAfterwards})
          .value();
  EXPECT_LE(report.hidden_share(StepMode::StagedAndWaited), 0.02);
  EXPECT_LE(report.hidden_share(StepMode::CopyAfterwards), 0.02);
  EXPECT_EQ(report.steps.at(StepMode::StagedAndWaited).copies, 12);
  EXPECT_EQ(report.steps.at(StepMode::StagedOwnQueue).copies, 12);
  EXPECT_EQ(report.steps.at(StepMode::StagedOwnQueue).host_waits, 0);
  EXPECT_GE(report.steps.at(StepMode::DrainPerBucket).host_waits, 6);
  EXPECT_LT(report.step_ns(StepMode::Overlapped), report.step_ns(StepMode::StagedOwnQueue));
  EXPECT_LE(report.step_ns(StepMode::Overlapped), report.step_ns(StepMode::DrainPerBucket));
}

TEST(Overlap, AStepBoundByItsCommunicationIsThePapersResNet) {
  // 126.4 MB of gradients in five buckets, 227 ms of compute of which two thirds are backward: the
  // paper measured 305 ms at 24 ranks.
  StepRequest request = paper_step(24, 5, 227.0 * 2 / 3);
  request.bucket_bytes = 25'280'000;
  request.forward_ns = 227 * kNsPerMs / 3;
  const Result<StepReport> step = run_step(request, StepMode::Overlapped);
  ASSERT_TRUE(step.is_ok()) << step.status().message();
  EXPECT_NEAR(to_ms(step.value().step_ns), 305, 0.03 * 305);
}

TEST(Overlap, RunsOnThisMachineAsWell) {
  StepRequest request = paper_step(2, 4, 4);
  request.bucket_bytes = 4'000;
  const Result<StepReport> handed_off = run_real_step(request, StepMode::Overlapped);
  ASSERT_TRUE(handed_off.is_ok()) << handed_off.status().message();
  EXPECT_EQ(handed_off.value().host_waits, 0);
  EXPECT_EQ(handed_off.value().rank_ns.size(), 2u);
  EXPECT_GE(handed_off.value().step_ns, 4 * kNsPerMs);
  const Result<StepReport> staged = run_real_step(request, StepMode::StagedAndWaited);
  ASSERT_TRUE(staged.is_ok()) << staged.status().message();
  EXPECT_EQ(staged.value().copies, 8);
  EXPECT_GE(staged.value().host_waits, 8);  // two copies of each bucket, and its average
  EXPECT_EQ(staged.value().device_waits, 0);
}

TEST(Overlap, DrawsWhenBucketsWereAveraged) {
  StepReport step;
  step.step_ns = 90;
  step.compute_end_ns = 80;
  step.ready_ns = {20, 80};
  step.averaged_ns = {50, 90};
  EXPECT_EQ(draw_timeline(step, 10),
            "  bucket   0   ====  |  ready 0.0 ms, averaged 0.0 ms\n"
            "  bucket   1         |= ready 0.0 ms, averaged 0.0 ms\n"
            "  1 of 2 buckets were averaged before the compute ended (|)\n");
}

TEST(Overlap, RefusesWhatItCannotRun) {
  StepRequest request = paper_step(2, 2, 1);
  request.bucket_bytes = 3;
  EXPECT_EQ(run_step(request, StepMode::Compute).status().message(),
            "buckets of 3 bytes hold no element");
  request.bucket_bytes = int64_t{3} << 30;
  EXPECT_EQ(run_step(request, StepMode::Compute).status().code(), StatusCode::InvalidArgument);
}

}  // namespace
}  // namespace mccl
