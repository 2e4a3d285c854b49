// Programs from files serve calls of simulated ranks: within their windows, made to fit, counted,
// and refused with a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/program_files.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Settings = std::vector<std::pair<std::string, std::string>>;

Program built_in(const char* algorithm, int rank_count, const char* name) {
  Program program = find_algorithm(algorithm)->build(rank_count).value();
  program.name = name;
  return program;
}

SimGroupOptions with_files(const std::string& files, Settings settings = {}) {
  settings.emplace_back("MSCCL_XML_FILES", files);
  settings.emplace_back("MCCL_LOG", "error");
  return {.settings = std::move(settings), .portions = {}, .prover = nullptr};
}

enum class Place { Separate, InPlace };

// One all_reduce of `count` elements on all ranks: rank r gives (r + 1) * (i + 1) at i.
template <typename T>
class AllReduceCall {
 public:
  AllReduceCall(SimGroup& group, int64_t count, Place place) : group_(group), place_(place) {
    for (int rank = 0; rank < group.rank_count(); ++rank) {
      std::vector<T> input(static_cast<size_t>(count));
      for (size_t i = 0; i < input.size(); ++i)
        input[i] = static_cast<T>((rank + 1) * (static_cast<int>(i) + 1));
      inputs_.push_back(input);
      outputs_.push_back(place == Place::InPlace ? input : std::vector<T>(input.size(), T{}));
    }
  }

  Status post(DataType dtype, ReduceOp op) {
    std::vector<std::shared_ptr<Work>> works;
    for (int rank = 0; rank < group_.rank_count(); ++rank) {
      std::vector<T>& output = outputs_[static_cast<size_t>(rank)];
      const T* input =
          place_ == Place::InPlace ? output.data() : inputs_[static_cast<size_t>(rank)].data();
      Result<std::shared_ptr<Work>> work = group_.communicator(rank).all_reduce(
          input, output.data(), static_cast<int64_t>(output.size()), dtype, op);
      if (!work.is_ok()) return work.status();
      works.push_back(std::move(work).value());
    }
    if (!group_.run(works)) return {StatusCode::Internal, "stuck"};
    for (const auto& work : works)
      if (!work->status().is_ok()) return work->status();
    return Status::ok();
  }

  // Every element of every rank as it should be, and inputs as they were.
  void expect_sums(int divisor = 1) {
    const int n = group_.rank_count();
    for (int rank = 0; rank < n; ++rank)
      for (size_t i = 0; i < outputs_[0].size(); ++i) {
        const int sum = n * (n + 1) / 2 * (static_cast<int>(i) + 1);
        ASSERT_EQ(outputs_[static_cast<size_t>(rank)][i],
                  static_cast<T>(sum) / static_cast<T>(divisor))
            << "rank " << rank << " element " << i;
        ASSERT_EQ(inputs_[static_cast<size_t>(rank)][i],
                  static_cast<T>((rank + 1) * (static_cast<int>(i) + 1)));
      }
  }

 private:
  SimGroup& group_;
  Place place_;
  std::vector<std::vector<T>> inputs_;
  std::vector<std::vector<T>> outputs_;
};

void sum_floats(SimGroup& group, int64_t count, Place place = Place::InPlace) {
  AllReduceCall<float> call(group, count, place);
  ASSERT_EQ(call.post(DataType::Float32, ReduceOp::Sum).to_string(), "ok");
  call.expect_sums();
}

const ProgramCount& only_program(const CommunicatorStats& stats) {
  EXPECT_EQ(stats.programs.size(), 1u);
  return stats.programs.front();
}

TEST(ProgramCalls, AFileServesAndIsCounted) {
  const ProgramFolder folder;
  const std::string file = folder.write("ring.xml", built_in("all_reduce_ring", 3, "my_ring"));
  SimGroup group(3, {}, with_files(file));
  sum_floats(group, 100);
  const CommunicatorStats stats = group.communicator(1).stats();
  EXPECT_EQ(only_program(stats).program, "my_ring");
  EXPECT_EQ(only_program(stats).reason, "loaded from " + file);
  EXPECT_EQ(only_program(stats).calls, 1u);
  EXPECT_EQ(only_program(stats).ragged_calls, 1u);  // 100 elements in 3 chunks
  ASSERT_EQ(stats.loaded.size(), 1u);
  EXPECT_EQ(stats.loaded[0].file, file);
  EXPECT_EQ(stats.loaded[0].rank_count, 3);
  EXPECT_EQ(stats.loaded[0].calls, 1u);
  EXPECT_EQ(stats.refusals.size(), 0u);
}

TEST(ProgramCalls, TellHowOftenEachProgramServed) {
  const ProgramFolder folder;
  SimulatedGroupOptions options;
  options.config.program_files =
      folder.write("ring.xml", built_in("all_reduce_ring", 2, "my_ring")) + ":" +
      folder.write("four.xml", built_in("all_reduce_ring", 4, "for_four"));
  std::vector<std::string> lines;
  options.log = [&](int rank, std::string_view line) {
    if (rank == 0) lines.emplace_back(line);
  };
  {
    SimulatedGroup group(2, {}, options);
    ASSERT_TRUE(group.add_communicator("world").is_ok());
    std::vector<float> data(8, 1);
    std::vector<float> more(8, 1);
    group.run({group.communicator(0)
                   .all_reduce(data.data(), data.data(), 8, DataType::Float32, ReduceOp::Sum)
                   .value(),
               group.communicator(1)
                   .all_reduce(more.data(), more.data(), 8, DataType::Float32, ReduceOp::Sum)
                   .value()});
  }
  EXPECT_THAT(lines,
              testing::Contains(HasSubstr("group world: programs from files: loaded 2, proven 1, "
                                          "used 0 so far; 1 of them is for 2 ranks")));
  EXPECT_THAT(lines,
              testing::Contains(HasSubstr("for_four does not serve some calls of all_reduce: "
                                          "it is for 4 ranks, the communicator has 2; would "
                                          "do: a communicator of 4 ranks")));
  EXPECT_THAT(lines.back(), HasSubstr("group world: programs from files: my_ring served 1 call"));
}

TEST(ProgramCalls, WindowsDecideByTheBytesOfACall) {
  const ProgramFolder folder;
  const std::string file = folder.write("ring.xml", built_in("all_reduce_ring", 2, "my_ring"),
                                        {.begin_bytes = 64, .end_bytes = 128});
  SimGroup group(2, {}, with_files(file));
  for (const int64_t count : {15, 16, 31, 32}) sum_floats(group, count);
  const CommunicatorStats stats = group.communicator(0).stats();
  EXPECT_EQ(stats.loaded[0].calls, 2u);
  ASSERT_EQ(stats.refusals.size(), 1u);
  EXPECT_EQ(stats.refusals[0].rule, "window");
  EXPECT_EQ(stats.refusals[0].calls, 2u);
  EXPECT_EQ(stats.refusals[0].reason, "its window is 64 bytes or more and less than 128");
  EXPECT_EQ(stats.refusals[0].remedy, "calls of 64 bytes or more");
}

TEST(ProgramCalls, AnEightRankProgramLeavesAGroupOfFourToTheBuiltIns) {
  const ProgramFolder folder;
  const std::string file = folder.write("ring.xml", built_in("all_reduce_ring", 8, "for_eight"));
  SimGroup group(4, {}, with_files(file));
  sum_floats(group, 12);
  const CommunicatorStats stats = group.communicator(0).stats();
  EXPECT_EQ(only_program(stats).program.rfind("all_reduce_", 0), 0u);
  ASSERT_EQ(stats.refusals.size(), 1u);
  EXPECT_EQ(stats.refusals[0].rule, "rank_count");
  EXPECT_EQ(stats.refusals[0].calls, 1u);
}

TEST(ProgramCalls, AClaimOfTheOtherAliasingCopiesTheInput) {
  const ProgramFolder folder;
  Program in_place_only = built_in("all_reduce_ring", 3, "claims_in_place");
  in_place_only.out_of_place = false;
  Program out_of_place_only = built_in("all_reduce_ring", 3, "claims_out_of_place");
  out_of_place_only.in_place = false;
  for (const Program& program : {in_place_only, out_of_place_only}) {
    SCOPED_TRACE(program.name);
    SimGroup group(3, {}, with_files(folder.write("file.xml", program)));
    const Place fitting = program.in_place ? Place::InPlace : Place::Separate;
    const Place other = program.in_place ? Place::Separate : Place::InPlace;
    sum_floats(group, 100, fitting);
    EXPECT_EQ(group.communicator(2).stats().programs[0].copied_calls, 0u);
    sum_floats(group, 100, other);
    const CommunicatorStats stats = group.communicator(2).stats();
    EXPECT_EQ(only_program(stats).program, program.name);
    EXPECT_EQ(only_program(stats).copied_calls, 1u);
    EXPECT_EQ(only_program(stats).copied_bytes, 400u);
  }
}

TEST(ProgramCalls, AnAverageIsASumAndADivision) {
  const ProgramFolder folder;
  SimGroup group(2, {},
                 with_files(folder.write("r.xml", built_in("all_reduce_ring", 2, "my_ring"))));
  AllReduceCall<float> call(group, 10, Place::InPlace);
  ASSERT_EQ(call.post(DataType::Float32, ReduceOp::Avg).to_string(), "ok");
  call.expect_sums(2);
  EXPECT_EQ(only_program(group.communicator(0).stats()).averaged_calls, 1u);
}

TEST(ProgramCalls, StrictlyOnlyWhatFitsIsServed) {
  const ProgramFolder folder;
  Program program = built_in("all_reduce_ring", 2, "my_ring");  // two chunks
  program.out_of_place = false;
  SimGroup group(2, {}, with_files(folder.write("r.xml", program), {{"MCCL_ALGO_FIT", "strict"}}));
  sum_floats(group, 10, Place::InPlace);
  sum_floats(group, 11, Place::InPlace);
  sum_floats(group, 10, Place::Separate);
  AllReduceCall<float> average(group, 10, Place::InPlace);
  ASSERT_EQ(average.post(DataType::Float32, ReduceOp::Avg).to_string(), "ok");
  average.expect_sums(2);
  const CommunicatorStats stats = group.communicator(0).stats();
  EXPECT_EQ(stats.loaded[0].calls, 1u);
  std::vector<std::string> rules;
  for (const RefusalCount& refusal : stats.refusals) {
    rules.push_back(refusal.rule);
    EXPECT_EQ(refusal.calls, 1u);
  }
  EXPECT_THAT(rules, ElementsAre("divisibility", "in_place", "reduction_op"));
}

TEST(ProgramCalls, RanksThatWouldDifferInBitsServeIntegersAndNoFloats) {
  const ProgramFolder folder;
  const std::string file = folder.write("one.xml", make_one_step_all_reduce(3));
  SimGroup group(3, {}, with_files(file));
  sum_floats(group, 10, Place::Separate);
  CommunicatorStats stats = group.communicator(0).stats();
  EXPECT_EQ(stats.loaded[0].calls, 0u);
  ASSERT_EQ(stats.refusals.size(), 1u);
  EXPECT_EQ(stats.refusals[0].rule, "bit_equality");
  EXPECT_EQ(stats.refusals[0].reason,
            "its ranks add in different orders, and float32 sum would differ in bits between them");
  AllReduceCall<int32_t> integers(group, 10, Place::Separate);
  ASSERT_EQ(integers.post(DataType::Int32, ReduceOp::Sum).to_string(), "ok");
  integers.expect_sums();
  AllReduceCall<float> largest(group, 10, Place::Separate);
  ASSERT_EQ(largest.post(DataType::Float32, ReduceOp::Max).to_string(), "ok");
  stats = group.communicator(0).stats();
  EXPECT_EQ(stats.loaded[0].calls, 2u);
  EXPECT_EQ(stats.refusals[0].calls, 1u);
}

TEST(ProgramCalls, ANamedProgramThatWouldNotServeIsAnErrorOfTheCall) {
  const ProgramFolder folder;
  const std::string file = folder.write("one.xml", make_one_step_all_reduce(3), {.end_bytes = 128});
  SimGroup group(3, {}, with_files(file, {{"MCCL_ALGO", "one_step"}, {"MCCL_ALGO_STRICT", "1"}}));
  AllReduceCall<float> floats(group, 10, Place::Separate);
  const Status refused = floats.post(DataType::Float32, ReduceOp::Sum);
  EXPECT_EQ(refused.code(), StatusCode::Unsupported);
  EXPECT_EQ(refused.message(),
            "MCCL_ALGO=one_step names one_step, which does not serve this all_reduce of 40 bytes: "
            "its ranks add in different orders, and float32 sum would differ in bits between them; "
            "would do: integers, min or max, or MCCL_ALGO_STRICT=0");
  AllReduceCall<int32_t> large(group, 32, Place::Separate);
  EXPECT_EQ(large.post(DataType::Int32, ReduceOp::Sum).message(),
            "MCCL_ALGO=one_step names one_step, which does not serve this all_reduce of 128 bytes: "
            "its window is 0 bytes or more and less than 128; would do: calls of less than 128 "
            "bytes, or MCCL_ALGO_STRICT=0");
  AllReduceCall<int32_t> integers(group, 10, Place::Separate);
  EXPECT_EQ(integers.post(DataType::Int32, ReduceOp::Sum).to_string(), "ok");
  integers.expect_sums();
}

TEST(ProgramCalls, AnUnprovenProgramRunsWhereThatIsAllowed) {
  const ProgramFolder folder;
  Program program = make_one_step_all_reduce(2);
  for (RankProgram& rank : program.ranks) rank.lanes.back().steps.pop_back();  // nothing is added
  SimGroup group(2, {},
                 with_files(folder.write("copy.xml", program), {{"MCCL_ALGO_UNPROVEN", "allow"}}));
  std::vector<std::vector<float>> inputs = {{1, 2}, {3, 4}};
  std::vector<std::vector<float>> outputs(2, std::vector<float>(2));
  std::vector<std::shared_ptr<Work>> works;
  for (size_t rank = 0; rank < 2; ++rank)
    works.push_back(group.communicator(static_cast<int>(rank))
                        .all_reduce(inputs[rank].data(), outputs[rank].data(), 2, DataType::Float32,
                                    ReduceOp::Sum)
                        .value());
  ASSERT_TRUE(group.run(works));
  EXPECT_EQ(outputs, inputs);
  EXPECT_EQ(group.communicator(0).stats().loaded[0].calls, 1u);
}

TEST(ProgramCalls, ABarrierIsNobodysCall) {
  const ProgramFolder folder;
  const std::string file =
      folder.write("ring.xml", built_in("all_reduce_ring", 2, "my_ring"), {.begin_bytes = 64});
  SimGroup group(2, {}, with_files(file, {{"MCCL_ALGO", "my_ring"}, {"MCCL_ALGO_STRICT", "1"}}));
  const std::vector<std::shared_ptr<Work>> works = {group.communicator(0).barrier().value(),
                                                    group.communicator(1).barrier().value()};
  EXPECT_TRUE(group.run(works));
  EXPECT_EQ(group.communicator(0).stats().refusals.size(), 0u);
}

TEST(ProgramCalls, ANamedProgramForOtherGroupsIsAnErrorOfTheCallNotOfTheGroup) {
  const ProgramFolder folder;
  const std::string file = folder.write("ring.xml", built_in("all_reduce_ring", 8, "for_eight"));
  SimGroup group(4, {}, with_files(file, {{"MCCL_ALGO", "for_eight"}, {"MCCL_ALGO_STRICT", "1"}}));
  AllReduceCall<float> call(group, 10, Place::Separate);
  EXPECT_THAT(call.post(DataType::Float32, ReduceOp::Sum).message(),
              HasSubstr("it is for 8 ranks, the communicator has 4; would do: a communicator of 8 "
                        "ranks"));
}

TEST(ProgramCalls, ChannelsUpToOneHundredAndTwentyEightServe) {
  const ProgramFolder folder;
  for (const int channel : {0, 31, 127}) {
    Program program = built_in("all_reduce_ring", 2, "my_ring");
    for (RankProgram& rank : program.ranks)
      for (Lane& lane : rank.lanes) lane.channel = channel;
    SimGroup group(2, {}, with_files(folder.write("r.xml", program)));
    sum_floats(group, 64);
    EXPECT_EQ(only_program(group.communicator(0).stats()).program, "my_ring");
  }
}

// Every collective with a program that claims one aliasing, called both ways: the results are right
// and inputs keep their values.
struct CollectiveCase {
  const char* algorithm;
  bool in_place;
};

class EveryCollective : public testing::TestWithParam<CollectiveCase> {};

constexpr int kRanks = 3;
constexpr int64_t kCount = 7;

// Rank r's block b, element i.
float value_of(int rank, int block, int64_t i) {
  return static_cast<float>(100 * rank + 10 * block + static_cast<int>(i));
}

struct Buffers {
  std::vector<float> input;
  std::vector<float> output;
};

Result<std::shared_ptr<Work>> post(Communicator& communicator, Collective collective,
                                   Buffers& buffers, Place place) {
  float* const input = buffers.input.data();
  float* const output = buffers.output.data();
  const int rank = communicator.rank();
  const bool is_in_place = place == Place::InPlace;
  const auto blocks_of = [](auto blocks, auto* base) {
    for (int r = 0; r < kRanks; ++r) blocks.push_back({base + r * kCount, kCount});
    return blocks;
  };
  const auto outputs = [&](float* base) { return blocks_of(std::vector<OutputBlock>(), base); };
  const auto inputs = [&](float* base) { return blocks_of(std::vector<InputBlock>(), base); };
  const bool is_root = rank == 1;
  switch (collective) {
    case Collective::AllGather:
      return communicator.all_gather(is_in_place ? output + rank * kCount : input, outputs(output),
                                     DataType::Float32);
    case Collective::ReduceScatter:
      return communicator.reduce_scatter(inputs(input),
                                         is_in_place ? input + rank * kCount : output,
                                         DataType::Float32, ReduceOp::Sum);
    case Collective::Reduce:
      return communicator.reduce(input, is_in_place ? input : output, kCount, DataType::Float32,
                                 ReduceOp::Sum, 1);
    case Collective::Gather:
      return communicator.gather(is_in_place && is_root ? output + rank * kCount : input, kCount,
                                 is_root ? outputs(output) : std::vector<OutputBlock>{},
                                 DataType::Float32, 1);
    case Collective::Scatter:
      return communicator.scatter(is_root ? inputs(input) : std::vector<InputBlock>{},
                                  is_in_place && is_root ? input + rank * kCount : output, kCount,
                                  DataType::Float32, 1);
    case Collective::Broadcast:
      return communicator.broadcast(input, kCount, DataType::Float32, 1);
    case Collective::AllReduce:
    case Collective::AllToAll:
    case Collective::Custom:
      break;
  }
  return Status(StatusCode::Unsupported, "not here");
}

// The expected buffers of a rank after the call.
Buffers expected(Collective collective, int rank, Buffers before, Place place) {
  const bool is_in_place = place == Place::InPlace;
  const bool is_root = rank == 1;
  const auto set = [](std::vector<float>& buffer, int block, auto value) {
    for (int64_t i = 0; i < kCount; ++i) buffer[static_cast<size_t>(block * kCount + i)] = value(i);
  };
  const auto sum = [](int block) {
    return [block](int64_t i) {
      return value_of(0, block, i) + value_of(1, block, i) + value_of(2, block, i);
    };
  };
  switch (collective) {
    case Collective::AllGather:
    case Collective::Gather:
      for (int r = 0; r < kRanks; ++r)
        if (collective == Collective::AllGather || is_root)
          set(before.output, r, [r](int64_t i) { return value_of(r, 0, i); });
      break;
    case Collective::ReduceScatter:
      set(is_in_place ? before.input : before.output, is_in_place ? rank : 0, sum(rank));
      break;
    case Collective::Reduce:
      if (is_root) set(is_in_place ? before.input : before.output, 0, sum(0));
      break;
    case Collective::Scatter:
      set(is_in_place && is_root ? before.input : before.output, is_in_place && is_root ? rank : 0,
          [rank](int64_t i) { return value_of(1, rank, i); });
      break;
    case Collective::Broadcast:
      set(before.input, 0, [](int64_t i) { return value_of(1, 0, i); });
      break;
    case Collective::AllReduce:
    case Collective::AllToAll:
    case Collective::Custom:
      break;
  }
  return before;
}

TEST_P(EveryCollective, IsServedBothWaysByAProgramThatClaimsOne) {
  const ProgramFolder folder;
  Program program = built_in(GetParam().algorithm, kRanks, "mine");
  program.in_place = GetParam().in_place;
  program.out_of_place = !GetParam().in_place;
  const Collective collective = program.collective;
  SimGroup group(kRanks, {}, with_files(folder.write("file.xml", program)));
  for (const Place place : {Place::InPlace, Place::Separate}) {
    SCOPED_TRACE(place == Place::InPlace ? "in place" : "out of place");
    std::vector<Buffers> buffers;
    std::vector<Buffers> wanted;
    for (int rank = 0; rank < kRanks; ++rank) {
      Buffers own{std::vector<float>(kRanks * kCount), std::vector<float>(kRanks * kCount, -1)};
      for (int block = 0; block < kRanks; ++block)
        for (int64_t i = 0; i < kCount; ++i)
          own.input[static_cast<size_t>(block * kCount + i)] = value_of(rank, block, i);
      if (place == Place::InPlace)  // of gathers the rank's own block is there
        std::copy_n(own.input.begin(), kCount, own.output.begin() + rank * kCount);
      wanted.push_back(expected(collective, rank, own, place));
      buffers.push_back(std::move(own));
    }
    std::vector<std::shared_ptr<Work>> works;
    for (int rank = 0; rank < kRanks; ++rank) {
      Result<std::shared_ptr<Work>> work =
          post(group.communicator(rank), collective, buffers[static_cast<size_t>(rank)], place);
      ASSERT_EQ(work.status().to_string(), "ok");
      works.push_back(std::move(work).value());
    }
    ASSERT_TRUE(group.run(works));
    for (size_t rank = 0; rank < buffers.size(); ++rank) {
      EXPECT_EQ(buffers[rank].output, wanted[rank].output) << "rank " << rank;
      EXPECT_EQ(buffers[rank].input, wanted[rank].input) << "rank " << rank;
    }
  }
  const CommunicatorStats stats = group.communicator(0).stats();
  EXPECT_EQ(stats.loaded[0].calls, 2u);
  EXPECT_EQ(stats.refusals.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    ProgramCalls, EveryCollective,
    testing::Values(
        CollectiveCase{"all_gather_ring", true}, CollectiveCase{"all_gather_ring", false},
        CollectiveCase{"reduce_scatter_ring", true}, CollectiveCase{"reduce_scatter_ring", false},
        CollectiveCase{"reduce_ring", true}, CollectiveCase{"reduce_ring", false},
        CollectiveCase{"gather_direct", true}, CollectiveCase{"gather_direct", false},
        CollectiveCase{"scatter_direct", true}, CollectiveCase{"scatter_direct", false},
        CollectiveCase{"broadcast_ring", true}, CollectiveCase{"broadcast_ring", false}),
    [](const testing::TestParamInfo<CollectiveCase>& row) {
      return std::string(row.param.algorithm) + (row.param.in_place ? "_in" : "_out");
    });

TEST(ProgramCalls, AnAllToAllIsServedBySizeWhereTheUserNamesItsProgram) {
  const ProgramFolder folder;
  const std::string file =
      folder.write("a2a.xml", built_in("all_to_all_pairwise", 2, "mine"), {.end_bytes = 64});
  for (const bool is_named : {false, true}) {
    Settings settings;
    if (is_named) settings.emplace_back("MCCL_ALGO", "mine");
    SimGroup group(2, {}, with_files(file, settings));
    std::vector<std::vector<float>> inputs = {{1, 2}, {3, 4}};
    std::vector<std::vector<float>> outputs(2, std::vector<float>(2));
    std::vector<std::shared_ptr<Work>> works;
    for (int rank = 0; rank < 2; ++rank) {
      float* const in = inputs[static_cast<size_t>(rank)].data();
      float* const out = outputs[static_cast<size_t>(rank)].data();
      works.push_back(
          group.communicator(rank)
              .all_to_all({{in, 1}, {in + 1, 1}}, {{out, 1}, {out + 1, 1}}, DataType::Float32)
              .value());
    }
    ASSERT_TRUE(group.run(works));
    EXPECT_EQ(outputs, (std::vector<std::vector<float>>{{1, 3}, {2, 4}}));
    EXPECT_EQ(group.communicator(0).stats().loaded[0].calls, is_named ? 1u : 0u);
  }
}

}  // namespace
}  // namespace mccl
