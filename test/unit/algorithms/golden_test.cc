// Every algorithm's program for four ranks (other counts where a program shows more there) as text.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "algorithms/catalog.h"
#include "unit/lang/program_text.h"

namespace mccl {
namespace {

bool is_update = false;

int golden_rank_count(const Algorithm& algorithm) {
  if (algorithm.name == "all_reduce_recursive_doubling") return 3;
  return algorithm.name == "reduce_binomial_tree" ? 7 : 4;  // 7: the first with scratch
}

TEST(Golden, TextOfEveryAlgorithmIsAsRecorded) {
  for (const Algorithm* algorithm : catalog()) {
    const std::string path =
        std::string(MCCL_GOLDEN_FOLDER) + "/" + std::string(algorithm->name) + ".txt";
    const std::string text = program_text(algorithm->build(golden_rank_count(*algorithm)).value());
    if (is_update) {
      std::ofstream(path) << text;
      continue;
    }
    std::ifstream file(path);
    std::ostringstream recorded;
    recorded << file.rdbuf();
    EXPECT_EQ(recorded.str(), text) << path << " differs: run with --update where that is meant";
  }
}

}  // namespace
}  // namespace mccl

int main(int argument_count, char** arguments) {
  ::testing::InitGoogleTest(&argument_count, arguments);
  mccl::is_update = argument_count == 2 && std::string(arguments[1]) == "--update";
  return RUN_ALL_TESTS();
}
