// SPDX-License-Identifier: Apache-2.0
#include "base/error_code.h"

#include <gtest/gtest.h>

#include <set>

namespace hvdray {
namespace {

TEST(ErrorCatalogueTest, NumbersRiseAndNamesAreUnique) {
  uint16_t last = 0;
  std::set<std::string_view> names;
  for (const ErrorInfo& info : ErrorCatalogue()) {
    EXPECT_GT(static_cast<uint16_t>(info.code), last) << info.name;
    last = static_cast<uint16_t>(info.code);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos)
        << info.name;
  }
}

TEST(ErrorCatalogueTest, EveryCodeFindsItsOwnRow) {
  for (const ErrorInfo& info : ErrorCatalogue()) EXPECT_EQ(&InfoOf(info.code), &info);
}

TEST(ErrorCatalogueTest, NumbersThatScriptsRelyOnStay) {
  EXPECT_EQ(static_cast<int>(ErrorCode::kUsage), 101);
  EXPECT_EQ(static_cast<int>(ErrorCode::kAgentLost), 205);
  EXPECT_EQ(static_cast<int>(ErrorCode::kProtocolMismatch), 206);
  EXPECT_EQ(static_cast<int>(ErrorCode::kProtocolError), 207);
  EXPECT_EQ(static_cast<int>(ErrorCode::kWorkerFailed), 303);
  EXPECT_EQ(static_cast<int>(ErrorCode::kResetLimit), 309);
  EXPECT_EQ(static_cast<int>(ErrorCode::kPartialSuccess), 310);
  EXPECT_EQ(static_cast<int>(ErrorCode::kStateLost), 311);
  EXPECT_EQ(static_cast<int>(ErrorCode::kAborted), 401);
}

TEST(ErrorCatalogueTest, RetriableIsWhatMayPassByItself) {
  EXPECT_TRUE(InfoOf(ErrorCode::kAgentLost).is_retriable);
  EXPECT_TRUE(InfoOf(ErrorCode::kHostUnreachable).is_retriable);
  EXPECT_TRUE(InfoOf(ErrorCode::kNoCapacity).is_retriable);
  EXPECT_FALSE(InfoOf(ErrorCode::kUsage).is_retriable);
  EXPECT_FALSE(InfoOf(ErrorCode::kProtocolMismatch).is_retriable);
  EXPECT_FALSE(InfoOf(ErrorCode::kWorkerFailed).is_retriable);
  EXPECT_FALSE(InfoOf(ErrorCode::kInternal).is_retriable);
}

TEST(ErrorCatalogueTest, UnknownNumberCountsAsInternal) {
  EXPECT_EQ(InfoOf(ErrorCode{9999}).code, ErrorCode::kInternal);
}

TEST(ErrorLabelTest, HasFourDigits) {
  EXPECT_EQ(ErrorLabel(ErrorCode::kInternal), "HVD-E0001");
  EXPECT_EQ(ErrorLabel(ErrorCode::kConnectTimeout), "HVD-E0204");
}

}  // namespace
}  // namespace hvdray
