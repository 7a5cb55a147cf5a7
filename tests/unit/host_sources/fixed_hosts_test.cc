// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/engine/host_source.h"
#include "tests/fakes/loop_runner.h"
#include "tests/unit/host_sources/source_log.h"

namespace hvdray {
namespace {

TEST(FixedHostsTest, ListIsSaidOnceAsTheFinalOneAndNotFromWithinStart) {
  const auto loop = std::move(*Loop::Create());
  SourceLog log;
  const auto source = MakeFixedHosts(*loop, {{"b", 2}, {"a", 1}});
  ASSERT_TRUE(source->Start(log.handlers()).ok());
  EXPECT_TRUE(log.lists.empty());
  ASSERT_TRUE(RunUntil(*loop, [&] { return !log.lists.empty(); }));
  Settle(*loop);
  EXPECT_EQ(log.lists, std::vector<std::string>{"b:2 a:1"});
  EXPECT_TRUE(log.is_final);
}

TEST(FixedHostsTest, StoppedItSaysNothing) {
  const auto loop = std::move(*Loop::Create());
  SourceLog log;
  const auto source = MakeFixedHosts(*loop, {{"a", 1}});
  ASSERT_TRUE(source->Start(log.handlers()).ok());
  source->Stop();
  Settle(*loop);
  EXPECT_TRUE(log.lists.empty());
}

TEST(FixedHostsTest, ItsHandlerMayDestroyIt) {
  const auto loop = std::move(*Loop::Create());
  auto source = MakeFixedHosts(*loop, {{"a", 1}});
  ASSERT_TRUE(source->Start({[&](std::vector<HostSlots>, bool) { source.reset(); }, {}}).ok());
  EXPECT_TRUE(RunUntil(*loop, [&] { return source == nullptr; }));
}

}  // namespace
}  // namespace hvdray
