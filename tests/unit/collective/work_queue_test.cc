// SPDX-License-Identifier: Apache-2.0
#include "collective/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <vector>

#include "collective/backends.h"

namespace hvdray {
namespace {

TEST(WorkQueueTest, RunsWhatIsStartedInOrderWhileTheCallerGoesOn) {
  const auto communicator = MakeSingleCommunicator();
  WorkQueue queue(*communicator);
  std::promise<void> gate;
  const std::shared_future<void> is_open = gate.get_future().share();
  std::vector<int> order;
  const Work first = queue.Start([&](Communicator&) -> Status {
    is_open.wait();
    order.push_back(1);
    return {};
  });
  const Work second = queue.Start([&](Communicator& c) {
    order.push_back(2);
    return c.Barrier();
  });
  EXPECT_FALSE(first.IsDone());
  EXPECT_FALSE(second.IsDone());
  gate.set_value();
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_TRUE(first.IsDone());
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(WorkQueueTest, AnErrorIsThatOfItsOperation) {
  const auto communicator = MakeSingleCommunicator();
  WorkQueue queue(*communicator);
  const Work wrong =
      queue.Start([](Communicator& c) { return c.Broadcast(nullptr, 1, DataType::kInt8, 3); });
  const Work right = queue.Start([](Communicator& c) { return c.Barrier(); });
  EXPECT_EQ(wrong.Wait().code(), ErrorCode::kUsage);
  EXPECT_TRUE(right.Wait().ok());
}

// As one that has no memory for partial sums.
class WithoutMemory : public Communicator {
 public:
  WithoutMemory() : Communicator(0, 2) {}
  std::string_view backend() const override { return "none"; }
  void Abort() override { is_aborted = true; }
  void UseTable(const AlgorithmTable& /*table*/) override {}
  bool is_aborted = false;

 private:
  Status Execute(const Operation& /*operation*/) override { throw std::bad_alloc(); }
};

TEST(WorkQueueTest, LackOfMemoryIsAnErrorThatEndsTheCommunicator) {
  WithoutMemory communicator;
  WorkQueue queue(communicator);
  float value = 0;
  const Work work = queue.Start([&](Communicator& c) {
    return c.AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum);
  });
  EXPECT_EQ(work.Wait().code(), ErrorCode::kOutOfResources);
  EXPECT_TRUE(communicator.is_aborted);
}

TEST(WorkQueueTest, ItsEndWaitsForWhatIsStartedAndAHandleMayLiveLonger) {
  const auto communicator = MakeSingleCommunicator();
  std::atomic<int> done = 0;
  std::vector<Work> works;
  {
    WorkQueue queue(*communicator);
    for (int i = 0; i < 100; ++i) {
      works.push_back(queue.Start([&](Communicator& c) {
        ++done;
        return c.Barrier();
      }));
    }
  }
  EXPECT_EQ(done, 100);
  for (const Work& work : works) EXPECT_TRUE(work.IsDone());
}

}  // namespace
}  // namespace hvdray
