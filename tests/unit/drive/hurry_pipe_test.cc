#include "cmd/drive/hurry_pipe.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

TEST(HurryPipeTest, EachOrderIsToldAndThePipeGoesWithItsDriver) {
  const std::unique_ptr<Loop> loop = Loop::Create().value();
  const TempFolder folder;
  const std::string path = folder / "now";
  int orders = 0;
  {
    HurryPipe pipe;
    ASSERT_TRUE(pipe.Open(*loop, path, [&] { ++orders; }).ok());
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600U);
    Settle(*loop);
    EXPECT_EQ(orders, 0);
    for (int i = 1; i <= 2; ++i) {
      ASSERT_TRUE(HurryDriver(path).ok());
      EXPECT_TRUE(RunUntil(*loop, [&] { return orders == i; }));
    }
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(HurryPipeTest, WhatIsThereAlreadyIsNotTaken) {
  const std::unique_ptr<Loop> loop = Loop::Create().value();
  const TempFolder folder;
  HurryPipe pipe;
  ASSERT_TRUE(pipe.Open(*loop, folder / "now", [] {}).ok());
  EXPECT_FALSE(HurryPipe().Open(*loop, folder / "now", [] {}).ok());
  EXPECT_TRUE(HurryDriver(folder / "now").ok()) << "it is still the first one's";
}

}  // namespace
}  // namespace hvdray
