#include "hand_off/threads_run.h"

#include <atomic>
#include <memory>
#include <vector>

#include "base/check.h"
#include "sim/device_thread.h"
#include "support/tcp_group.h"

namespace mccl {
namespace {

struct Totals {
  std::atomic<uint64_t> wrong_elements{0};
  std::atomic<uint64_t> violations{0};
  std::atomic<uint64_t> drains{0};
  std::atomic<uint64_t> device_waits{0};
};

sim::MemoryRange range_of(const std::vector<float>& data) {
  return {data.data(), data.size() * sizeof(float)};
}

void run_rank(const ThreadsRun& run, Communicator& communicator, Totals& totals) {
  sim::DeviceThread executor({.fault = run.fault});
  sim::Device& device = executor.device();
  const auto buckets = static_cast<size_t>(run.bucket_count);
  const auto elements = static_cast<size_t>(run.bucket_elements);
  std::vector<std::vector<float>> data(buckets, std::vector<float>(elements));
  std::vector<std::vector<float>> results(buckets, std::vector<float>(elements));
  std::vector<std::shared_ptr<Work>> works;
  const auto rank = static_cast<float>(communicator.rank());
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    device.encode({.name = "backward",
                   .duration_ns = run.kernel_ns,
                   .writes = {range_of(data[bucket])},
                   .run = [&, bucket] {
                     for (float& value : data[bucket]) value = rank + static_cast<float>(bucket);
                   }});
    works.push_back(communicator
                        .all_reduce(data[bucket].data(), data[bucket].data(), run.bucket_elements,
                                    DataType::Float32, ReduceOp::Sum,
                                    {.hand_off = device.hand_off()})
                        .value());
    device.note_memory(device.counts().tickets,
                       {.reads = {range_of(data[bucket])}, .writes = {range_of(data[bucket])}});
  }
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    MCCL_CHECK(works[bucket]->wait_on_stream().value());
    device.encode({.name = "optimizer", .reads = {range_of(data[bucket])}, .run = [&, bucket] {
                     results[bucket] = data[bucket];
                   }});
  }
  totals.drains += device.counts().drains;
  device.synchronize();
  for (const std::shared_ptr<Work>& work : works) MCCL_CHECK(work->wait().is_ok());
  const auto ranks = static_cast<float>(communicator.rank_count());
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const float sum = ranks * static_cast<float>(bucket) + ranks * (ranks - 1) / 2;
    for (const float value : results[bucket]) totals.wrong_elements += value == sum ? 0 : 1;
  }
  totals.violations += device.violations().size();
  totals.device_waits += device.counts().device_waits;
}

}  // namespace

ThreadsOutcome run_threads(const ThreadsRun& run) {
  Totals totals;
  run_tcp_ranks(run.rank_count,
                [&](Communicator& communicator) { run_rank(run, communicator, totals); },
                {{"MCCL_LOG", "error"}});
  return {totals.wrong_elements, totals.violations, totals.drains, totals.device_waits};
}

}  // namespace mccl
