#include "perf/perf_options.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

PerfWords words_for(const std::string& collective) {
  return {.collective = collective};
}

std::string refusal(const PerfWords& words) {
  return read_perf_options(words).status().message();
}

TEST(PerfOptions, HaveTheDefaultsOfNcclTests) {
  const PerfOptions options = read_perf_options(words_for("all_reduce_perf")).value();
  EXPECT_EQ(options.collective, Collective::AllReduce);
  EXPECT_EQ(options.sizes, (std::vector<int64_t>{33'554'432}));
  EXPECT_EQ(options.iteration_count, 20);
  EXPECT_EQ(options.warmup_count, 1);
  EXPECT_EQ(options.aggregate_count, 1);
  EXPECT_EQ(options.cycle_count, 1);
  EXPECT_TRUE(options.is_checked);
  EXPECT_EQ(options.dtypes, (std::vector<DataType>{DataType::Float32}));
  EXPECT_EQ(options.ops, (std::vector<ReduceOp>{ReduceOp::Sum}));
  EXPECT_EQ(options.average, RankAverage::Mean);
  EXPECT_EQ(options.algos, (std::vector<std::string>{""}));
  EXPECT_EQ(options.rank_count, 0);
  EXPECT_TRUE(options.notices.empty());
}

TEST(PerfOptions, SweepByAFactorOrAStep) {
  PerfWords words = words_for("all_reduce");
  words.min_bytes = "64K";
  words.max_bytes = "512K";
  words.step_factor = 2;
  EXPECT_EQ(read_perf_options(words).value().sizes,
            (std::vector<int64_t>{65'536, 131'072, 262'144, 524'288}));
  words.step_factor = 0;
  words.step_bytes = "192K";
  EXPECT_EQ(read_perf_options(words).value().sizes,
            (std::vector<int64_t>{65'536, 262'144, 458'752}));
  words.min_bytes = "0";
  words.max_bytes = "4";
  words.step_factor = 2;
  EXPECT_EQ(read_perf_options(words).value().sizes, (std::vector<int64_t>{0, 1, 2, 4}));
}

TEST(PerfOptions, SpellSizesAsNcclTestsDo) {
  EXPECT_EQ(parse_perf_bytes("-b", "8").value(), 8);
  EXPECT_EQ(parse_perf_bytes("-b", "64K").value(), 65'536);
  EXPECT_EQ(parse_perf_bytes("-b", "1.5m").value(), 1'572'864);
  EXPECT_EQ(parse_perf_bytes("-b", "2GB").value(), 2'147'483'648);
  EXPECT_EQ(parse_perf_bytes("-b", "1T").value(), 1'099'511'627'776);
  for (const char* const text : {"", "K", "-1", "64X", "64KK", "2T", "nan", "8B", "1e300G"})
    EXPECT_EQ(parse_perf_bytes("-e", text).status().message(),
              "-e \"" + std::string(text) +
                  "\" is not a size: bytes up to 1T, with a suffix K, M or G (powers of 1024) or "
                  "none");
}

TEST(PerfOptions, KnowBothNamesOfACollective) {
  EXPECT_EQ(find_perf_collective("alltoall_perf"), Collective::AllToAll);
  EXPECT_EQ(find_perf_collective("all_to_all"), Collective::AllToAll);
  EXPECT_EQ(find_perf_collective("reduce_scatter_perf"), Collective::ReduceScatter);
  EXPECT_EQ(find_perf_collective("sendrecv_perf"), std::nullopt);
  EXPECT_EQ(find_perf_collective("custom"), std::nullopt);
  EXPECT_EQ(perf_program_name(Collective::AllToAll), "alltoall_perf");
  EXPECT_EQ(perf_program_name(Collective::AllReduce), "all_reduce_perf");
}

TEST(PerfOptions, TellWhatIsWithoutEffect) {
  PerfWords words = words_for("all_reduce");
  words.device_count = 8;
  words.check_count = 3;
  words.idle_flags = {"-z 0", "-y 1"};
  const PerfOptions options = read_perf_options(words).value();
  EXPECT_EQ(options.rank_count, 8);
  EXPECT_EQ(options.notices,
            (std::vector<std::string>{
                "-t 1 -g 8: 8 ranks, each a process of its own",
                "-z 0 -y 1: accepted and without effect, there is nothing of that kind here",
                "-c 3: as -c 1, which checks the result of every iteration"}));
  words.rank_count = 4;
  EXPECT_EQ(read_perf_options(words).value().rank_count, 4);
  EXPECT_EQ(read_perf_options(words).value().notices[0],
            "-t 1 -g 8: no effect, as --ranks says how many ranks there are");
}

TEST(PerfOptions, ListAllTypesAndOperations) {
  PerfWords words = words_for("reduce");
  words.dtype = "all";
  words.op = "all";
  const PerfOptions options = read_perf_options(words).value();
  EXPECT_EQ(options.dtypes.size(), 12u);
  EXPECT_EQ(options.ops, (std::vector<ReduceOp>{ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max,
                                                ReduceOp::Min, ReduceOp::Avg}));
  // Nothing is reduced: each type once.
  words.collective = "all_gather";
  EXPECT_EQ(read_perf_options(words).value().ops.size(), 1u);
  EXPECT_EQ(perf_dtype_name(DataType::Float16), "half");
  EXPECT_EQ(perf_dtype_name(DataType::Int16), "int16");
  EXPECT_EQ(perf_op_name(ReduceOp::Product), "prod");
}

TEST(PerfOptions, RefuseWithTheFlagAndWhatIsAllowed) {
  EXPECT_EQ(refusal(words_for("sendrecv")),
            "\"sendrecv\" is no collective; there are all_reduce, all_gather, broadcast, "
            "reduce_scatter, reduce, gather, scatter and all_to_all, also as nccl-tests calls them "
            "(all_reduce_perf)");
  PerfWords words = words_for("all_reduce");
  words.iteration_count = 0;
  EXPECT_EQ(refusal(words), "-n 0: allowed are 1 to 1000000");
  words = words_for("all_reduce");
  words.step_factor = 1;
  EXPECT_EQ(refusal(words), "-f 1: allowed are 2 to 1000000");
  words = words_for("all_reduce");
  words.min_bytes = "64M";
  EXPECT_EQ(refusal(words), "-b 64M is more than -e 32M: give both");
  words = words_for("all_reduce");
  words.min_bytes = "0";
  words.step_bytes = "1";
  EXPECT_EQ(refusal(words), "more than 10000 sizes from -b 0 to -e 32M; take -f 2 or a larger -i");
  words = words_for("all_reduce");
  words.op = "mulsum";
  EXPECT_EQ(refusal(words), "-o mulsum: mccl scales in torch's PREMUL_SUM only; use sum");
  words.op = "xor";
  EXPECT_EQ(refusal(words), "-o xor: allowed are sum, prod, max, min, avg and all");
  words = words_for("all_reduce");
  words.dtype = "f8e4m3";
  EXPECT_EQ(refusal(words), "-d f8e4m3 -o sum: the type has no such reduction");
  words.dtype = "bool";
  EXPECT_EQ(refusal(words), "-d bool: use uint8, which is as long");
  words = words_for("all_reduce");
  words.algos = {"ring", "all_pairs", "ring"};
  EXPECT_EQ(refusal(words), "--algo ring is given twice");
}

}  // namespace
}  // namespace mccl
