// SPDX-License-Identifier: Apache-2.0
#include "base/edge_poller.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <functional>

namespace hvdray {
namespace {

struct Sink final : EdgeSink {
  void OnReady(uint32_t events) override {
    ++calls;
    last = events;
    if (on_ready) on_ready();
  }
  int calls = 0;
  uint32_t last = 0;
  std::function<void()> on_ready;
};

class EdgePollerTest : public testing::Test {
 protected:
  std::unique_ptr<EdgePoller> poller_ = EdgePoller::Create().value();
  std::pair<UniqueFd, UniqueFd> a_ = MakeSocketPair().value();
  std::pair<UniqueFd, UniqueFd> b_ = MakeSocketPair().value();
};

TEST_F(EdgePollerTest, ReportsAChangeOnceWhenEdgeTriggered) {
  Sink sink;
  ASSERT_TRUE(poller_->Add(a_.first.get(), EPOLLIN | EPOLLET, &sink).ok());
  ASSERT_TRUE(WriteAll(a_.second.get(), "x").ok());
  poller_->Dispatch();
  poller_->Dispatch();
  EXPECT_EQ(sink.calls, 1);
  ASSERT_TRUE(WriteAll(a_.second.get(), "y").ok());
  poller_->Dispatch();
  EXPECT_EQ(sink.calls, 2);
}

TEST_F(EdgePollerTest, TellsWhatHappened) {
  Sink sink;
  ASSERT_TRUE(poller_->Add(a_.first.get(), EPOLLIN | EPOLLRDHUP | EPOLLET, &sink).ok());
  a_.second.Reset();
  poller_->Dispatch();
  EXPECT_NE(sink.last & EPOLLRDHUP, 0U);
}

TEST_F(EdgePollerTest, DropsWhatIsLeftForASinkThatIsForgotten) {
  Sink first, second;
  ASSERT_TRUE(poller_->Add(a_.first.get(), EPOLLIN | EPOLLET, &first).ok());
  ASSERT_TRUE(poller_->Add(b_.first.get(), EPOLLIN | EPOLLET, &second).ok());
  first.on_ready = [&] { poller_->Forget(&second); };
  second.on_ready = [&] { poller_->Forget(&first); };
  ASSERT_TRUE(WriteAll(a_.second.get(), "x").ok());
  ASSERT_TRUE(WriteAll(b_.second.get(), "x").ok());
  poller_->Dispatch();
  EXPECT_EQ(first.calls + second.calls, 1) << "whichever came first silenced the other";
}

TEST_F(EdgePollerTest, ComesBackThoughALevelTriggeredSinkIsNeverSatisfied) {
  Sink sink;
  ASSERT_TRUE(poller_->Add(a_.first.get(), EPOLLIN, &sink).ok());
  ASSERT_TRUE(WriteAll(a_.second.get(), "x").ok());
  poller_->Dispatch();
  EXPECT_GE(sink.calls, 1);
  EXPECT_LE(sink.calls, 16);
}

TEST_F(EdgePollerTest, SaysWhyADescriptorCantBeAdded) {
  Sink sink;
  EXPECT_FALSE(poller_->Add(-1, EPOLLIN, &sink).ok());
  EXPECT_FALSE(poller_->Modify(a_.first.get(), EPOLLIN, &sink).ok()) << "it was never added";
}

}  // namespace
}  // namespace hvdray
