// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "launcher/job/ray_address.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class RayTokenTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }

  TempDirectory directory_;
};

TEST_F(RayTokenTest, TheVariableBeatsTheNamedFileBeatsTheOneAtHome) {
  const std::string home = Write(".ray/auth_token", "at-home\n");
  const std::string named = Write("token", "  named \n");
  Environment environment;
  environment.Set("HOME", directory_.path());
  Result<RayToken> token = FindRayToken(environment);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->text.view(), "at-home");
  EXPECT_EQ(token->origin, home);
  environment.Set("RAY_AUTH_TOKEN_PATH", named);
  token = FindRayToken(environment);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->text.view(), "named");
  EXPECT_EQ(token->origin, named);
  environment.Set("RAY_AUTH_TOKEN", "given");
  token = FindRayToken(environment);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->text.view(), "given");
  EXPECT_EQ(token->origin, "RAY_AUTH_TOKEN");
}

TEST_F(RayTokenTest, WithoutAnyThereIsNoneAndNoError) {
  Environment environment;
  EXPECT_TRUE(FindRayToken(environment)->is_empty());
  environment.Set("HOME", directory_.path());
  EXPECT_TRUE(FindRayToken(environment)->is_empty());
}

TEST_F(RayTokenTest, ANamedFileThatIsNotThereIsAnError) {
  Environment environment;
  environment.Set("RAY_AUTH_TOKEN_PATH", directory_.path() + "/none");
  const Result<RayToken> token = FindRayToken(environment);
  ASSERT_FALSE(token.ok());
  EXPECT_EQ(token.status().code(), ErrorCode::kFileUnreadable);
  EXPECT_NE(token.status().message().find("RAY_AUTH_TOKEN_PATH"), std::string::npos);
}

TEST_F(RayTokenTest, WhatIsNoTokenIsRefusedAndNotShown) {
  for (const std::string& text :
       {std::string("two words"), std::string("two\nlines"), std::string(" \n"),
        std::string("nul\0byte", 8), std::string(8200, 'x')}) {
    Environment environment;
    environment.Set("RAY_AUTH_TOKEN_PATH", Write("token", text));
    const Result<RayToken> token = FindRayToken(environment);
    ASSERT_FALSE(token.ok()) << text;
    EXPECT_EQ(token.status().ToString().find("two"), std::string::npos);
    EXPECT_EQ(token.status().ToString().find("xxx"), std::string::npos);
  }
}

}  // namespace
}  // namespace hvdray
