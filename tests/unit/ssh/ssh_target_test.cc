// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_target.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

SshTarget Parsed(std::string_view text) {
  const Result<SshTarget> target = ParseSshTarget(text);
  EXPECT_TRUE(target.ok()) << target.status().ToString();
  return target.ok() ? *target : SshTarget{};
}

TEST(SshTargetTest, TakesUserHostAndPortApart) {
  EXPECT_EQ(Parsed("node7"), (SshTarget{"node7", "", 0}));
  EXPECT_EQ(Parsed("eva@node7"), (SshTarget{"node7", "eva", 0}));
  EXPECT_EQ(Parsed("eva@node7:2222"), (SshTarget{"node7", "eva", 2222}));
  EXPECT_EQ(Parsed("eva@corp@node7"), (SshTarget{"node7", "eva@corp", 0}));
}

TEST(SshTargetTest, AnIpv6AddressIsBareOrInBracketsBeforeAPort) {
  EXPECT_EQ(Parsed("fe80::1"), (SshTarget{"fe80::1", "", 0}));
  EXPECT_EQ(Parsed("[fe80::1]"), (SshTarget{"fe80::1", "", 0}));
  EXPECT_EQ(Parsed("eva@[fe80::1]:22"), (SshTarget{"fe80::1", "eva", 22}));
}

TEST(SshTargetTest, RefusesWhatIsNoHost) {
  for (const char* text : {"", "@a", "a:", "a:0", "a:65536", "a:22x", "[::1", "[::1]22", "a b",
                           "-oProxyCommand=x", "-x@a", "a;b", "$(a)", "a`b`", "a\nb", "[]"}) {
    const Result<SshTarget> target = ParseSshTarget(text);
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_EQ(target.status().code(), ErrorCode::kSpecInvalid);
  }
}

TEST(SshTargetTest, HostKeyPolicyHasTheWordsOfSsh) {
  EXPECT_EQ(ParseHostKeyPolicy("yes").value(), HostKeyPolicy::kYes);
  EXPECT_EQ(ParseHostKeyPolicy("accept-new").value(), HostKeyPolicy::kAcceptNew);
  EXPECT_EQ(ParseHostKeyPolicy("off").value(), HostKeyPolicy::kNo);
  EXPECT_EQ(ParseHostKeyPolicy("perhaps").status().code(), ErrorCode::kUsage);
}

TEST(SshTargetTest, TheUserIsThatOfThePasswordFile) {
  Environment environment;
  environment.Set("SSH_AUTH_SOCK", "/run/agent");
  const SshUser user = CurrentSshUser(environment);
  EXPECT_FALSE(user.name.empty());
  EXPECT_EQ(user.home[0], '/');
  EXPECT_EQ(user.agent_socket, "/run/agent");
}

}  // namespace
}  // namespace hvdray
