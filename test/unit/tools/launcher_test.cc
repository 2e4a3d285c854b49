#include "perf/launcher.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

std::optional<LaunchPlace> place_of(const Environment& environment) {
  return find_launch_place(environment).value();
}

TEST(Launcher, IsNoneWithoutItsVariables) {
  EXPECT_EQ(place_of({}), std::nullopt);
  EXPECT_EQ(place_of({{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}}), std::nullopt);
}

TEST(Launcher, TorchrunsAgentHasItsPortSoTheNextOneIsTaken) {
  Environment environment = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29400"}};
  EXPECT_EQ(place_of(environment), (LaunchPlace{"torchrun", 3, 8, "10.0.0.1", 29'400}));
  environment.emplace_back("TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_EQ(place_of(environment), (LaunchPlace{"torchrun", 3, 8, "10.0.0.1", 29'401}));
  environment[3].second = "65535";
  EXPECT_EQ(place_of(environment)->port, 65'534);
}

TEST(Launcher, MpirunOnOneMachineNeedsNoAddress) {
  EXPECT_EQ(place_of({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
            (LaunchPlace{"mpirun", 1, 4, "127.0.0.1", 29'500}));
  EXPECT_EQ(
      place_of(
          {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "h1"}, {"MASTER_PORT", "4000"}}),
      (LaunchPlace{"PMI", 0, 2, "h1", 4000}));
  EXPECT_EQ(find_launch_place(Environment{{"OMPI_COMM_WORLD_RANK", "1"},
                                          {"OMPI_COMM_WORLD_SIZE", "4"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                .status()
                .message(),
            "mpirun does not say where ranks meet: set MASTER_ADDR, the address of rank 0, and "
            "MASTER_PORT for every rank (mpirun -x MASTER_ADDR=10.0.0.1 -x MASTER_PORT=29500)");
}

TEST(Launcher, ThatContradictsItselfIsNamed) {
  const auto refusal = [](const Environment& environment) {
    return find_launch_place(environment).status().message();
  };
  EXPECT_EQ(refusal({{"RANK", "1"}}), "RANK is set and WORLD_SIZE is not: set both, or neither");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}}),
            "WORLD_SIZE is set and RANK is not: set both, or neither");
  EXPECT_EQ(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK=2: allowed are 0 to 1");
  EXPECT_EQ(refusal({{"RANK", "0"}, {"WORLD_SIZE", "two"}}),
            "WORLD_SIZE=two: allowed are 1 to 1048576");
  EXPECT_EQ(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "70000"}}),
      "MASTER_PORT=70000: allowed are 1 to 65535");
}

}  // namespace
}  // namespace mccl
