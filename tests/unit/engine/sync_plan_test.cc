// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/sync_plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

TEST(SyncPlanTest, WhatLiesInTheHomeDirectoryGoesToTheSamePlaceInTheOtherOne) {
  EXPECT_EQ(DefaultTarget("/home/me/proj", "/home/me"), "proj");
  EXPECT_EQ(DefaultTarget("/home/me", "/home/me"), "");
  EXPECT_EQ(DefaultTarget("/home/menace", "/home/me"), "/home/menace");
  EXPECT_EQ(DefaultTarget("/data/proj", "/home/me"), "/data/proj");
  EXPECT_EQ(DefaultTarget("/data/proj", ""), "/data/proj");
  EXPECT_EQ(DefaultTarget("/data/proj", "/"), "/data/proj");
}

TEST(SyncPlanTest, PlaceIsInTheInnermostDirectory) {
  const std::vector<SyncedDirectory> synced = {{"/a", "", {}}, {"/a/b", "", {}}, {"/", "", {}}};
  EXPECT_EQ(PlaceIn(synced, "/a"), (SyncedPlace{0, ""}));
  EXPECT_EQ(PlaceIn(synced, "/a/c/d"), (SyncedPlace{0, "c/d"}));
  EXPECT_EQ(PlaceIn(synced, "/a/b/c"), (SyncedPlace{1, "c"}));
  EXPECT_EQ(PlaceIn(synced, "/ab"), (SyncedPlace{2, "ab"}));
  EXPECT_FALSE(PlaceIn(std::span(synced).first(2), "/ab").has_value());
}

class PlanSyncTest : public testing::Test {
 protected:
  PlanSyncTest() {
    fs::create_directories(temp_ / "home/proj/sub");
    EXPECT_TRUE(WriteFileAtomically(temp_ / "home/proj/sub/x", "x").ok());
    environment_.Set("HOME", temp_ / "home");
  }
  Result<std::vector<SyncedDirectory>> Plan(SyncWord word, SyncScope scope = SyncScope::kList) {
    return PlanSync(std::vector<SyncWord>{std::move(word)}, environment_, scope);
  }

  TempDirectory temp_;
  Environment environment_;
};

TEST_F(PlanSyncTest, DirectoryIsListedUnderItsRealName) {
  fs::create_directory_symlink(temp_ / "home/proj", temp_ / "link");
  const auto plan = Plan({temp_ / "link/sub/..", "", false});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->front().directory, fs::canonical(temp_ / "home/proj"));
  EXPECT_EQ(plan->front().target, "proj");
  EXPECT_EQ(plan->front().listing.files, 1U);
}

TEST_F(PlanSyncTest, NamedTargetIsTaken) {
  EXPECT_EQ(Plan({temp_ / "home/proj", "/scratch/x", true})->front().target, "/scratch/x");
  EXPECT_EQ(Plan({temp_ / "home/proj", ".", true})->front().target, "") << "the home itself";
}

TEST_F(PlanSyncTest, WithoutOtherHostsOnlyThePlaceIsChecked) {
  const auto plan = Plan({temp_ / "home/proj", "", false}, SyncScope::kCheckOnly);
  EXPECT_TRUE(plan->front().listing.entries.empty());
  EXPECT_EQ(Plan({temp_ / "none", "", false}, SyncScope::kCheckOnly).status().code(),
            ErrorCode::kUsage);
}

TEST_F(PlanSyncTest, DirectoryThatIsNoneIsAUsageErrorWithItsName) {
  const Status missing = Plan({temp_ / "none", "", false}).status();
  ExpectError(missing, ErrorCode::kUsage, {"--sync: " + (temp_ / "none"), std::strerror(ENOENT)});
  const Status file = Plan({temp_ / "home/proj/sub/x", "", false}).status();
  ExpectError(file, ErrorCode::kUsage, {temp_ / "home/proj/sub/x", "directory"});
}

}  // namespace
}  // namespace hvdray
