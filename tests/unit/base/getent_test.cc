// SPDX-License-Identifier: Apache-2.0
#include "base/getent.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

class GetentTest : public testing::Test {
 protected:
  /// A getent that is this script of sh.
  std::string Script(const std::string& text) {
    const std::string path = testing::TempDir() + "/getent";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    ::chmod(path.c_str(), 0700);
    return path;
  }
  const Duration limit_ = std::chrono::minutes(1);
};

TEST_F(GetentTest, TheRealOneKnowsThisUserAndThisHost) {
  const Result<Lines> root = AskGetent("passwd", "root", limit_);
  ASSERT_TRUE(root.ok()) << root.status().ToString();
  ASSERT_EQ(root->size(), 1u);
  EXPECT_TRUE(root->front().starts_with("root:")) << root->front();
  const Result<Lines> none = AskGetent("passwd", "no such user", limit_);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  EXPECT_EQ(*AddressesByGetent("127.0.0.1", limit_), Lines{"127.0.0.1"});
  EXPECT_EQ(*AddressesByGetent("--help", limit_), Lines());
}

TEST_F(GetentTest, EachAddressOnceInTheOrderOfTheAnswer) {
  const std::string program = Script(
      "[ \"$1 $2 $3\" = 'ahosts h ' ] || exit 1\n"
      "printf '10.0.0.2 STREAM h\\n10.0.0.2 DGRAM\\nfe80::1 STREAM\\n10.0.0.1 STREAM\\n'");
  EXPECT_EQ(*AddressesByGetent("h", limit_, program), (Lines{"10.0.0.2", "fe80::1", "10.0.0.1"}));
}

TEST_F(GetentTest, OneWithoutAhostsIsAskedForHosts) {
  const std::string program = Script("[ $1 = hosts ] || exit 1; echo '10.0.0.7   h other'");
  EXPECT_EQ(*AddressesByGetent("h", limit_, program), Lines{"10.0.0.7"});
}

TEST_F(GetentTest, AKeyThatLooksLikeAnOptionIsNobodys) {
  // Alpine's, of musl, knows no options: each word behind the database is a key.
  const std::string program = Script("[ $# = 2 ] && echo \"$2:x:1:1::/:/bin/sh\"");
  EXPECT_EQ(*AskGetent("passwd", "u", limit_, program), Lines{"u:x:1:1::/:/bin/sh"});
  EXPECT_EQ(*AskGetent("passwd", "--help", limit_, program), Lines());
}

TEST_F(GetentTest, OneThatIsMissingOrFailsIsNamed) {
  Status status = AskGetent("passwd", "u", limit_, "/nonexistent/getent").status();
  EXPECT_EQ(status.code(), ErrorCode::kUnknownHost);
  EXPECT_EQ(status.message(), "/nonexistent/getent: no such program");
  const std::string program = Script("echo half; exit 3");
  status = AskGetent("passwd", "u", limit_, program).status();
  EXPECT_EQ(status.message(), program + ": exit code 3");
}

TEST_F(GetentTest, OneThatDoesNotAnswerIsEndedWithItsChildren) {
  const std::string program = Script("sleep 1000 & echo half; wait");
  const Status status = AskGetent("passwd", "u", std::chrono::milliseconds(50), program).status();
  EXPECT_EQ(status.message(), program + ": no answer in time");
  const std::string silent = Script("exec >&-; sleep 1000");
  EXPECT_EQ(AskGetent("passwd", "u", std::chrono::milliseconds(50), silent).status().message(),
            silent + ": no answer in time");
}

}  // namespace
}  // namespace hvdray
