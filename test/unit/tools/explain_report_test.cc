#include "explain/explain_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/catalog.h"
#include "support/program_files.h"

namespace mccl {
namespace {

using testing::HasSubstr;

ExplainRequest request_of(const std::string& files, int64_t bytes) {
  ExplainRequest request{.link = choose_link({}).value()};
  request.config.program_files = files;
  request.bytes = bytes;
  request.rank_count = 3;
  return request;
}

TEST(ExplainReport, NamesTheProgramOfAFileThatWouldServe) {
  const ProgramFolder folder;
  Program program = find_algorithm("all_reduce_ring")->build(3).value();
  program.name = "mine";
  program.out_of_place = false;
  const std::string file = folder.write("mine.xml", program, {.begin_bytes = 1024});
  ExplainRequest request = request_of(file, 4096);
  const Explanation serves = make_explain_report(request).value().explanation;
  EXPECT_EQ(serves.candidates[0].algorithm, "mine");
  EXPECT_EQ(serves.candidates[0].verdict, "loaded from " + file);
  request.config.is_fit_strict = true;
  for (const CandidateExplanation& candidate :
       make_explain_report(request).value().explanation.candidates)
    if (candidate.algorithm == "mine") {
      EXPECT_FALSE(candidate.is_chosen);
      EXPECT_EQ(
          candidate.verdict,
          "MCCL_ALGO_FIT=strict, it claims in-place calls only, and the call is out of place");
    }
  request.is_in_place = true;
  request.bytes = 4092;  // 1023 elements, and three chunks divide them
  EXPECT_EQ(make_explain_report(request).value().explanation.candidates[0].algorithm, "mine");
}

TEST(ExplainReport, RefusesBytesThatAreNoElementsAndFilesThatAreNoPrograms) {
  EXPECT_EQ(make_explain_report(request_of("", 10)).status().message(),
            "--bytes 10 is no whole number of float32 elements for 1 block");
  EXPECT_THAT(make_explain_report(request_of("/none.xml", 8)).status().message(),
              HasSubstr("/none.xml: cannot be read"));
}

}  // namespace
}  // namespace mccl
