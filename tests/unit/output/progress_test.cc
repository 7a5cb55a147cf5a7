// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/progress.h"

#include <gtest/gtest.h>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/output.txt");

Environment With(std::map<std::string, std::string> values) {
  return Environment(std::move(values));
}

TEST(ChooseStyleTest, ATerminalGetsColorAndProgress) {
  const TerminalStyle style = ChooseStyle(true, ColorMode::kAuto, false, With({{"TERM", "xterm"}}));
  EXPECT_TRUE(style.is_colored);
  EXPECT_TRUE(style.is_progress_shown);
}

TEST(ChooseStyleTest, APipeGetsNeither) {
  const TerminalStyle style = ChooseStyle(false, ColorMode::kAuto, false, {});
  EXPECT_FALSE(style.is_colored);
  EXPECT_FALSE(style.is_progress_shown);
}

TEST(ChooseStyleTest, QuietTakesTheProgressAwayOnly) {
  const TerminalStyle style = ChooseStyle(true, ColorMode::kAuto, true, {});
  EXPECT_TRUE(style.is_colored);
  EXPECT_FALSE(style.is_progress_shown);
}

TEST(ChooseStyleTest, ContinuousIntegrationAndDumbTerminalsGetNeither) {
  for (const auto& environment :
       {With({{"CI", "true"}}), With({{"CI", "1"}}), With({{"TERM", "dumb"}})}) {
    const TerminalStyle style = ChooseStyle(true, ColorMode::kAuto, false, environment);
    EXPECT_FALSE(style.is_colored);
    EXPECT_FALSE(style.is_progress_shown);
  }
  EXPECT_TRUE(ChooseStyle(true, ColorMode::kAuto, false, With({{"CI", "false"}})).is_colored);
  EXPECT_TRUE(ChooseStyle(true, ColorMode::kAuto, false, With({{"CI", ""}})).is_colored);
}

TEST(ChooseStyleTest, NoColorIsAboutColorOnlyAndEmptyMeansUnset) {
  const TerminalStyle style = ChooseStyle(true, ColorMode::kAuto, false, With({{"NO_COLOR", "1"}}));
  EXPECT_FALSE(style.is_colored);
  EXPECT_TRUE(style.is_progress_shown);
  EXPECT_TRUE(ChooseStyle(true, ColorMode::kAuto, false, With({{"NO_COLOR", ""}})).is_colored);
}

TEST(ChooseStyleTest, TheFlagBeatsTheEnvironment) {
  EXPECT_TRUE(ChooseStyle(false, ColorMode::kAlways, false, With({{"NO_COLOR", "1"}})).is_colored);
  EXPECT_FALSE(ChooseStyle(true, ColorMode::kNever, false, {}).is_colored);
}

TEST(ProgressTextTest, CountsWorkersAndEndsWhenAllRun) {
  ExpectSays(ProgressText({1, 1, 4, 3}), {"4 workers", "1 host", "3/4"});
  ExpectSays(ProgressText({1, 0, 1, 0}), {"1 worker", "1 host", "0/1"});
  EXPECT_EQ(ProgressText({1, 1, 4, 4}), "");
}

TEST(ProgressTextTest, CountsHostsWhileAgentsAreOnTheWay) {
  ExpectSays(ProgressText({2, 1, 8, 0}), {"8 workers", "2 hosts", "1/2 hosts ready"});
  ExpectSays(ProgressText({2, 2, 8, 5}), {"8 workers", "2 hosts", "5/8"});
}

}  // namespace
}  // namespace hvdray
