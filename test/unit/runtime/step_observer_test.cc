#include "runtime/step_observer.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "comm/simulated_group.h"
#include "ir/opcode.h"
#include "runtime/rank_code.h"

namespace mccl {
namespace {

constexpr std::array kWaitNames = {"dependence", "receive turn", "message",
                                   "send turn",  "credit",       "capture"};

// One word per notice, waits that are repeated only once.
class Notebook final : public StepObserver {
 public:
  void on_wait(const StepPlace& place, StepWait wait) override {
    note(std::to_string(place.sequence) + " wait " + kWaitNames[static_cast<size_t>(wait)]);
  }
  void on_step(const StepPlace& place) override {
    const StepCode& step = place.code->steps[static_cast<size_t>(place.step)];
    const std::string opcode(opcode_row(step.opcode).spelling);
    note(std::to_string(place.sequence) + " " + opcode + " " + std::to_string(place.message_bytes));
  }
  std::vector<std::string> lines;

 private:
  void note(const std::string& line) {
    if (lines.empty() || lines.back() != line) lines.push_back(line);
  }
};

TEST(StepObserver, HearsOfEveryStepAndOfWhatItWaitedFor) {
  std::array<Notebook, 2> notebooks;
  SimulatedGroupOptions options;
  Result<Config> config = parse_config(Environment{{"MCCL_ALGO", "all_reduce_ring"}}, nullptr);
  ASSERT_TRUE(config.is_ok());
  options.config = config.value();
  options.observer = [&](int rank) { return &notebooks[static_cast<size_t>(rank)]; };
  SimulatedGroup group(2, {}, options);
  ASSERT_TRUE(group.add_communicator("world").is_ok());

  std::vector<std::vector<float>> data(2, std::vector<float>(6, 1));
  std::vector<std::shared_ptr<Work>> works;
  for (int rank = 0; rank < 2; ++rank) {
    float* own = data[static_cast<size_t>(rank)].data();
    works.push_back(
        group.communicator(rank).all_reduce(own, own, 6, DataType::Float32, ReduceOp::Sum).value());
  }
  ASSERT_TRUE(group.run(works));
  for (const Notebook& notebook : notebooks)
    EXPECT_EQ(notebook.lines,
              (std::vector<std::string>{"0 send 12", "0 wait message", "0 recv_reduce_copy_send 12",
                                        "0 wait message", "0 recv 12"}));
}

}  // namespace
}  // namespace mccl
