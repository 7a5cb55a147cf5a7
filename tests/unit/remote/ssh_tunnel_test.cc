// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh_tunnel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace hvdray {
namespace {

/// A program instead of ssh that notes its words and its pid, then does what `script` says.
class SshTunnelTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/tunnelXXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Result<std::unique_ptr<SshTunnel>> Open(const std::string& script, Duration limit) {
    const std::string path = directory_ + "/ssh";
    std::ofstream(path) << fmt::format(
        "#!/bin/sh\necho $$ >>{0}/pids\necho \"$@\" >>{0}/words\n{1}\n", directory_, script);
    ::chmod(path.c_str(), 0755);
    return SshTunnel::Open({.program = path}, "head", 8265, limit);
  }
  std::string Text(const char* name) const {
    std::ifstream file(directory_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool IsAlive() const { return ::kill(std::stoi(Text("pids")), 0) == 0; }

  std::string directory_;
};

constexpr std::chrono::seconds kLong(30);

TEST_F(SshTunnelTest, IsOpenFromTheReadyLineOnAndEndsWithTheObject) {
  Result<std::unique_ptr<SshTunnel>> tunnel =
      Open("echo a banner; echo HVDRAY-TUNNEL; exec cat >/dev/null", kLong);
  ASSERT_TRUE(tunnel.ok()) << tunnel.status().ToString();
  EXPECT_NE(
      Text("words").find(fmt::format("-L 127.0.0.1:{}:127.0.0.1:8265", (*tunnel)->local_port())),
      std::string::npos)
      << Text("words");
  EXPECT_EQ(Text("words").find("ClearAllForwardings"), std::string::npos);
  EXPECT_TRUE(IsAlive());
  tunnel->reset();
  EXPECT_FALSE(IsAlive());
}

TEST_F(SshTunnelTest, OneThatDoesNotEndIsKilled) {
  Result<std::unique_ptr<SshTunnel>> tunnel = Open("echo HVDRAY-TUNNEL; exec sleep 600", kLong);
  ASSERT_TRUE(tunnel.ok()) << tunnel.status().ToString();
  tunnel->reset();
  EXPECT_FALSE(IsAlive());
}

TEST_F(SshTunnelTest, SaysWhatSshSaid) {
  const Result<std::unique_ptr<SshTunnel>> tunnel =
      Open("echo 'root@head: Permission denied (publickey).' >&2; exit 255", kLong);
  ASSERT_FALSE(tunnel.ok());
  EXPECT_EQ(tunnel.status().code(), ErrorCode::kAuthenticationFailed);
  EXPECT_NE(tunnel.status().message().find("head"), std::string::npos);
}

TEST_F(SshTunnelTest, TriesAnotherPortWhenOneIsTaken) {
  const Result<std::unique_ptr<SshTunnel>> tunnel = Open(
      "echo 'channel_setup_fwd_listener_tcpip: cannot listen to port: 1' >&2; exit 255", kLong);
  ASSERT_FALSE(tunnel.ok());
  EXPECT_EQ(tunnel.status().code(), ErrorCode::kAddressInUse);
  const std::string pids = Text("pids");
  EXPECT_EQ(std::count(pids.begin(), pids.end(), '\n'), 3);
}

TEST_F(SshTunnelTest, GivesUpAtItsLimitAndLeavesNothingBehind) {
  const Result<std::unique_ptr<SshTunnel>> tunnel =
      Open("exec sleep 600", std::chrono::seconds(2));  // it has noted its pid by then
  ASSERT_FALSE(tunnel.ok());
  EXPECT_EQ(tunnel.status().code(), ErrorCode::kConnectTimeout);
  EXPECT_FALSE(IsAlive());
}

}  // namespace
}  // namespace hvdray
