// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_config_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

/// For all hosts.
constexpr char kReasons[] = "LogVerbose=*:sshpkt_vfatal():*";

class SshConfigSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    user_ = {"me", directory_.path(), ""};
    overrides_.config_file = directory_ / "config";
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(directory_ / name, text).ok());
    ::chmod((directory_ / name).c_str(), 0600);
  }
  Result<SshSettings> Resolve(const std::string& host, const std::string& program) {
    return SshConfigSource(overrides_, user_, program)
        .Settings(ParseSshTarget(host).value(), SshLimit::In(std::chrono::seconds(30)));
  }

  TempDirectory directory_;
  SshUser user_;
  SshOverrides overrides_;
};

TEST_F(SshConfigSourceTest, SshAndTheReaderAgree) {
  Write("config", "Host a*\n HostName 10.1.2.3\n Port 2022\n User eva\n IdentityFile " +
                      (directory_ / "k") + "\n IdentitiesOnly yes\n UserKnownHostsFile " +
                      (directory_ / "kh") +
                      "\n StrictHostKeyChecking accept-new\n ConnectTimeout 3\n");
  for (const char* program : {"ssh", "", "no-such-ssh-client"}) {
    const SshSettings settings = Resolve("ab", program).value();
    EXPECT_EQ(settings.host_name, "10.1.2.3") << program;
    EXPECT_EQ(settings.port, 2022);
    EXPECT_EQ(settings.user, "eva");
    EXPECT_EQ(settings.identity_files, std::vector<std::string>{directory_ / "k"});
    EXPECT_TRUE(settings.identities_only);
    EXPECT_EQ(settings.user_known_hosts_files, std::vector<std::string>{directory_ / "kh"});
    EXPECT_EQ(settings.connect_timeout, std::chrono::seconds(3));
    EXPECT_EQ(settings.needs_openssh, "");
  }
}

TEST_F(SshConfigSourceTest, SettingsOfASessionAreReadAndUndone) {
  const SshLimit limit = SshLimit::In(std::chrono::seconds(30));
  const std::pair<const char*, const char*> rows[] = {
      {"ForkAfterAuthentication yes", "ForkAfterAuthentication=no"},
      {"RemoteCommand tmux new -A", "RemoteCommand=none"},
      {"SessionType subsystem", "SessionType=default"},
      {"StdinNull yes", "StdinNull=no"},
      {"AddKeysToAgent ask", "AddKeysToAgent=no"}};
  for (const auto& [line, option] : rows) {
    Write("config", std::string(line) + "\n");
    SshConfigSource source(overrides_, user_, "ssh");
    const Result<OpensshNeeds> needs = source.NeedsOfOpenssh({.host = "h"}, limit);
    ASSERT_TRUE(needs.ok()) << needs.status().ToString();
    EXPECT_EQ(needs->session_options, (std::vector<std::string>{option, kReasons}));
  }
  Write("config", "ProxyJump bastion\nLocalForward 8080 x:80\n");
  const OpensshNeeds needs =
      SshConfigSource(overrides_, user_, "ssh").NeedsOfOpenssh({.host = "h"}, limit).value();
  EXPECT_EQ(needs.session_options, std::vector<std::string>{kReasons});
  EXPECT_TRUE(needs.has_forwards);
  EXPECT_EQ(needs.proxy, "ProxyJump bastion");
}

TEST_F(SshConfigSourceTest, OverridesReachSshItself) {
  Write("config", "Match user root\n Port 77\nHost *\n IdentityFile /second\n");
  overrides_.identity_file = "/first";
  const SshSettings settings = Resolve("root@h", "ssh").value();
  EXPECT_EQ(settings.port, 77);
  EXPECT_EQ(settings.identity_files, (std::vector<std::string>{"/first", "/second"}));
  EXPECT_EQ(Resolve("root@h:78", "ssh").value().port, 78);
}

TEST_F(SshConfigSourceTest, SshsOwnWordsTellOfABadConfiguration) {
  Write("config", "NoSuchKeyword x\n");
  const Result<SshSettings> settings = Resolve("h", "ssh");
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.status().code(), ErrorCode::kSpecInvalid);
  EXPECT_NE(settings.status().message().find("nosuchkeyword"), std::string::npos)
      << settings.status().message();
}

TEST_F(SshConfigSourceTest, AConfigurationThatHangsIsGivenUp) {
  Write("config", "Match exec \"exec sleep 600\"\n Port 77\n");
  const Result<SshSettings> settings =
      SshConfigSource(overrides_, user_, "ssh")
          .Settings({.host = "h"}, SshLimit::In(std::chrono::milliseconds(100)));
  EXPECT_EQ(settings.status().code(), ErrorCode::kConnectTimeout);
}

TEST_F(SshConfigSourceTest, RsaKeysAloneNeedTheSystemsSsh) {
  Write("rsa", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n");
  Write("ec", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n");
  Write("config", "IdentityFile " + (directory_ / "rsa") + "\n");
  EXPECT_NE(Resolve("h", "").value().needs_openssh.find("rsa is of type RSA"), std::string::npos);
  Write("config",
        "IdentityFile " + (directory_ / "rsa") + "\nIdentityFile " + (directory_ / "ec") + "\n");
  EXPECT_EQ(Resolve("h", "").value().needs_openssh, "");
  overrides_.identity_file = directory_ / "rsa";
  EXPECT_NE(Resolve("h", "").value().needs_openssh, "") << "the key that was named comes first";
}

TEST_F(SshConfigSourceTest, ACertificateBesideTheKeyNeedsTheSystemsSsh) {
  Write("ec", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n");
  Write("ec-cert.pub", "x");
  Write("config", "IdentityFile " + (directory_ / "ec") + "\n");
  EXPECT_NE(Resolve("h", "").value().needs_openssh.find("certificate"), std::string::npos);
}

TEST_F(SshConfigSourceTest, HostsThatAreAlikeCostOneRun) {
  Write("included", "Host c*\n Port 77\n");
  Write("config", "Host b\n Include " + (directory_ / "included") + "\nHost *\n User eva\n");
  SshConfigSource source(overrides_, user_, "ssh");
  const auto limit = SshLimit::In(std::chrono::seconds(30));
  for (int i = 0; i < 20; ++i) {
    const SshTarget target = {.host = fmt::format("n{}", i)};
    const SshSettings settings = source.Settings(target, limit).value();
    EXPECT_EQ(settings.host_name, target.host);
    EXPECT_EQ(settings.user, "eva");
    EXPECT_EQ(settings.port, 22);
  }
  EXPECT_EQ(source.run_count(), 1);
  EXPECT_EQ(source.NeedsOfOpenssh({.host = "c1"}, limit).value(),
            (OpensshNeeds{.session_options = {kReasons}}));
  EXPECT_EQ(source.run_count(), 2) << "another class, by the included file";
}

TEST_F(SshConfigSourceTest, AFileThatChangesCountsAtOnce) {
  Write("included", "Port 77\n");
  Write("config", "Include " + (directory_ / "included") + "\n");
  SshConfigSource source(overrides_, user_, "ssh");
  const auto limit = SshLimit::In(std::chrono::seconds(30));
  EXPECT_EQ(source.Settings({.host = "a"}, limit)->port, 77);
  EXPECT_EQ(source.Settings({.host = "a"}, limit)->port, 77);
  EXPECT_EQ(source.run_count(), 1);
  Write("included", "Port 78\n");
  EXPECT_EQ(source.Settings({.host = "a"}, limit)->port, 78);
  EXPECT_EQ(source.Settings({.host = "b"}, limit)->port, 78);
  EXPECT_EQ(source.run_count(), 2);
}

TEST_F(SshConfigSourceTest, AScriptCalledSshIsAskedForEachHost) {
  Write("ssh", "#!/bin/sh\nexec ssh \"$@\"\n");
  ::chmod((directory_ / "ssh").c_str(), 0700);
  Write("config", "Host *\n User eva\n");
  SshConfigSource source(overrides_, user_, directory_ / "ssh");
  for (const char* host : {"a", "b", "c"}) {
    EXPECT_EQ(source.Settings({.host = host}, SshLimit::In(std::chrono::seconds(30)))->host_name,
              host);
  }
  EXPECT_EQ(source.run_count(), 3);
}

}  // namespace
}  // namespace hvdray
