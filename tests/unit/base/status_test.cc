// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "base/result.h"

namespace hvdray {
namespace {

TEST(StatusTest, DefaultIsSuccess) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "ok");
}

TEST(StatusTest, ContextComesInFrontAndHintOnALineOfItsOwn) {
  const Status status = Status(ErrorCode::kConnectTimeout, "timed out after 30 s")
                            .WithContext("connect 10.0.0.7:22")
                            .WithContext("start agent on node7")
                            .WithHint("check that sshd listens there");
  EXPECT_EQ(status.ToString(),
            "start agent on node7: connect 10.0.0.7:22: timed out after 30 s [HVD-E0204]\n"
            "  hint: check that sshd listens there");
}

TEST(StatusTest, FirstHintStays) {
  EXPECT_EQ(Status(ErrorCode::kUsage, "x", "first").WithHint("second").hint(), "first");
}

TEST(StatusTest, SuccessTakesNeitherContextNorHintNorCode) {
  EXPECT_EQ(Status().WithContext("a").WithHint("b").WithCode(ErrorCode::kUsage), Status());
}

TEST(StatusTest, CodeCanBeReplaced) {
  const Status status = Status(ErrorCode::kSystem, "x", "h").WithCode(ErrorCode::kFileUnreadable);
  EXPECT_EQ(status, Status(ErrorCode::kFileUnreadable, "x", "h"));
}

TEST(ErrnoStatusTest, NumbersWithACodeOfTheirOwnGetIt) {
  const std::pair<int, ErrorCode> rows[] = {
      {ENOSPC, ErrorCode::kOutOfResources},        {EDQUOT, ErrorCode::kOutOfResources},
      {EMFILE, ErrorCode::kOutOfResources},        {ENFILE, ErrorCode::kOutOfResources},
      {ENOMEM, ErrorCode::kOutOfResources},        {EAGAIN, ErrorCode::kOutOfResources},
      {EADDRINUSE, ErrorCode::kAddressInUse},      {ECONNREFUSED, ErrorCode::kHostRefused},
      {EHOSTUNREACH, ErrorCode::kHostUnreachable}, {ENETUNREACH, ErrorCode::kHostUnreachable},
      {ETIMEDOUT, ErrorCode::kConnectTimeout},     {EIO, ErrorCode::kSystem}};
  for (const auto& [error, code] : rows) EXPECT_EQ(ErrnoStatus("call", error).code(), code);
  EXPECT_EQ(ErrnoStatus("open /x", ENOENT).message(), "open /x: No such file or directory");
}

TEST(ErrnoStatusTest, CallsThatTheKernelLacksNameTheOneThatHasThem) {
  EXPECT_NE(ErrnoStatus("call", ENOSYS).hint().find("Linux 5.4"), std::string::npos);
  EXPECT_EQ(ErrnoStatus("call", EIO).hint(), "");
}

TEST(CheckTest, FalseEndsTheProcessAndNamesTheBug) {
  EXPECT_DEATH(HVDRAY_CHECK(1 == 2), "bug: 1 == 2 is not true at .*status_test.cc");
}

TEST(ResultTest, HoldsAValue) {
  Result<std::string> result = std::string("x");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  EXPECT_EQ(*result, "x");
  EXPECT_EQ(result->size(), 1u);
}

TEST(ResultTest, HoldsTheReasonWhyThereIsNone) {
  const Result<int> result = Status(ErrorCode::kUsage, "no");
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(), "no");
}

TEST(ResultTest, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(ResultTest, TheFallbackStandsInForAMissingValue) {
  const Result<int> none = Status(ErrorCode::kUsage, "no");
  EXPECT_EQ(none.value_or(5), 5);
  EXPECT_EQ(Result<std::string>(std::string("x")).value_or("y"), "x");
}

TEST(ResultTest, HoldsAnEmptyOptionalAsAValue) {
  const Result<std::optional<int>> result = std::nullopt;
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result.value().has_value());
}

TEST(ResultTest, ValueOfAFailureIsABug) {
  Result<int> result = Status(ErrorCode::kUsage, "no");
  EXPECT_DEATH((void)result.value(), "bug");
  EXPECT_DEATH(Result<int>{Status()}, "bug");
}

Result<int> Half(int number) {
  if (number % 2 != 0) return Status(ErrorCode::kUsage, "odd");
  return number / 2;
}

Result<int> Quarter(int number) {
  HVDRAY_ASSIGN_OR_RETURN(const int half, Half(number));
  HVDRAY_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status IsQuarterable(int number) {
  HVDRAY_RETURN_IF_ERROR(Quarter(number).status());
  return {};
}

TEST(ResultTest, MacrosGiveTheValueOrReturnTheStatus) {
  EXPECT_EQ(Quarter(12).value(), 3);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_TRUE(IsQuarterable(4).ok());
  EXPECT_FALSE(IsQuarterable(3).ok());
}

}  // namespace
}  // namespace hvdray
