// SPDX-License-Identifier: Apache-2.0
// When a worker's error began, and what it recorded of it.
#include "agent/worker_error.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "wire/message.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kHeader = "Traceback (most recent call last):\n";

TimePoint At(int ms) { return TimePoint{} + milliseconds(ms); }

TEST(ErrorClockTest, TellsWhenTheFirstLineCame) {
  ErrorClock clock;
  clock.Feed("epoch 1\n", At(5));
  EXPECT_FALSE(clock.erred());
  clock.Feed(std::string("x\n") + std::string(kHeader), At(7));
  clock.Feed("  File \"train.py\"\nValueError: no\n", At(8));
  EXPECT_EQ(clock.erred(), At(7));
}

TEST(ErrorClockTest, FindsAFirstLineThatIsTornAnywhere) {
  for (size_t cut = 1; cut < kHeader.size(); ++cut) {
    ErrorClock clock;
    clock.Feed("before\n", At(1));
    clock.Feed(kHeader.substr(0, cut), At(2));
    clock.Feed(kHeader.substr(cut), At(3));
    ASSERT_TRUE(clock.erred()) << cut;
    EXPECT_GE(*clock.erred(), At(2)) << cut;
  }
  ErrorClock by_bytes;
  for (const char byte : kHeader) by_bytes.Feed({&byte, 1}, At(4));
  EXPECT_EQ(by_bytes.erred(), At(4));
}

TEST(ErrorClockTest, AChainIsOneErrorAndALaterOneAnother) {
  ErrorClock clock;
  clock.Feed(kHeader, At(0));
  clock.Feed(kHeader, At(300));
  EXPECT_EQ(clock.erred(), At(0));
  clock.Feed("going on\n", At(5'000));
  EXPECT_EQ(clock.erred(), At(0));
  clock.Feed(kHeader, At(9'000));
  EXPECT_EQ(clock.erred(), At(9'000));
}

std::string Recorded(std::string_view text) {
  Result<ErrorFile> file = ErrorFile::Make();
  EXPECT_TRUE(file.ok());
  // By its name, as another process opens it.
  UniqueFd fd(::open(file->path().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  EXPECT_TRUE(fd.is_valid());
  EXPECT_TRUE(WriteAll(fd.get(), text).ok());
  const auto record = file->Read();
  if (!record) return "nothing";
  EXPECT_LT(record->age, std::chrono::seconds(20));
  return record->message;
}

TEST(ErrorFileTest, HoldsWhatTorchsRecordWrites) {
  EXPECT_EQ(
      Recorded(R"({"message": {"message": "ValueError: no", "extraInfo": {"timestamp": "1"}}})"),
      "ValueError: no");
  EXPECT_EQ(Recorded(R"({"message": "SIGSEGV"})"), "SIGSEGV");
}

TEST(ErrorFileTest, TakesAnyTextAndBoundsIt) {
  EXPECT_EQ(Recorded(""), "nothing");
  EXPECT_EQ(Recorded("no JSON"), "no JSON");
  EXPECT_EQ(Recorded("[1,2]"), "[1,2]");
  EXPECT_EQ(Recorded("a\xff"
                     "b"),
            "a?b");
  EXPECT_EQ(Recorded(std::string(1 << 20, 'x')).size(), wire::kMaxRecordedError);
}

}  // namespace
}  // namespace hvdray
