// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/warm_starts.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(WarmStartsTest, AReasonIsSaidOnceHoweverManyHostsHaveIt) {
  WarmStarts starts;
  EXPECT_EQ(starts.OnWarmed("a", {.is_warm = true, .modules = {"torch"}}), std::nullopt);
  const wire::Warmed cold{.is_warm = false, .why = "import torch: no room"};
  EXPECT_EQ(starts.OnWarmed("b", cold),
            "--preload: the workers on host b start cold: import torch: no room");
  EXPECT_EQ(starts.OnWarmed("c", cold), std::nullopt);
  EXPECT_TRUE(starts.OnWarmed("d", {.is_warm = false, .why = "another"}).has_value());
}

}  // namespace
}  // namespace hvdray
