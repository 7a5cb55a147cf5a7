// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/ssh_tunnel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/fakes/test_sockets.h"

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
        "#!/bin/sh\n: >{0}/socket\necho $$ >>{0}/pids\necho \"$@\" >>{0}/words\n{1}\n", directory_,
        script);
    ::chmod(path.c_str(), 0755);
    return SshTunnel::Open({.program = path}, "head", {directory_ + "/socket", 8265}, limit);
  }
  std::string Text(const char* name) const {
    std::ifstream file(directory_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool IsAlive() const { return ::kill(std::stoi(Text("pids")), 0) == 0; }

  std::string directory_;
};

constexpr std::chrono::seconds kLong(30);

TEST_F(SshTunnelTest, WordsOfAStartUpFileAreNoRefusedLogin) {
  const Result<std::unique_ptr<SshTunnel>> tunnel =
      Open("echo 'git@x: Permission denied (publickey).' >&2; exit 3", kLong);
  ASSERT_FALSE(tunnel.ok());
  EXPECT_EQ(tunnel.status().code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(tunnel.status().message().find("code 3"), std::string::npos)
      << tunnel.status().message();
}

TEST_F(SshTunnelTest, IsOpenFromTheReadyLineOnAndEndsWithTheObject) {
  Result<std::unique_ptr<SshTunnel>> tunnel =
      Open("echo a banner; echo HVDRAY-TUNNEL; exec cat >/dev/null", kLong);
  ASSERT_TRUE(tunnel.ok()) << tunnel.status().ToString();
  EXPECT_TRUE((*tunnel)->socket_path().starts_with("/proc/self/fd/"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/socket")) << "who is killed leaves it behind";
  EXPECT_NE(Text("words").find(fmt::format("-L {}/socket:127.0.0.1:8265", directory_)),
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

TEST_F(SshTunnelTest, ASocketOfATunnelThatDidNotOpenIsRemoved) {
  ASSERT_FALSE(Open("exit 255", kLong).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/socket"));
}

TEST_F(SshTunnelTest, APortOfAnotherUserThereIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give sockets away";
  const TestListener listener;
  const UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Ipv4("127.0.0.1", 0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(other.get(), generic, size), 0);
  ASSERT_EQ(::listen(other.get(), 4), 0);
  ASSERT_EQ(::getsockname(other.get(), generic, &size), 0);
  ASSERT_EQ(::fchown(other.get(), 65534, 65534), 0);
  // Runs the last word, as the host would.
  const std::string path = directory_ + "/ssh";
  std::ofstream(path) << "#!/bin/sh\n: >" << directory_
                      << "/socket\nfor word; do :; done\neval \"$word\"\n";
  ::chmod(path.c_str(), 0755);
  const auto open = [&](uint16_t port, bool is_checked) {
    return SshTunnel::Open({.program = path}, "head", {directory_ + "/socket", port, is_checked},
                           kLong)
        .status();
  };
  const uint16_t port = ntohs(address.sin_port);
  EXPECT_EQ(open(port, true).code(), ErrorCode::kRayDenied) << open(port, true).ToString();
  EXPECT_NE(open(port, true).message().find("uid 65534"), std::string::npos);
  EXPECT_TRUE(open(port, false).ok());
  EXPECT_TRUE(open(listener.port(), true).ok()) << open(listener.port(), true).ToString();
}

TEST_F(SshTunnelTest, APathThatSshWouldReadOtherwiseIsRefused) {
  for (const std::string& path : {std::string("/tmp/a:b"), std::string("/tmp/%d"),
                                  std::string("/tmp/${X}"), "/tmp/" + std::string(200, 'a')}) {
    const auto tunnel = SshTunnel::Open({.program = "/bin/false"}, "head", {path, 8265}, kLong);
    EXPECT_EQ(tunnel.status().code(), ErrorCode::kFileUnwritable) << path;
  }
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
