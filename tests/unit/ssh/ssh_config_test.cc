// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_config.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

using Paths = std::vector<std::string>;

constexpr std::string_view kConfig =
    "Port 2200\n"
    "\n"
    "# comment\n"
    "Host node1 node2*\n"
    "  HostName=10.0.0.1\n"
    "  User \"eva braun\"  # who\n"
    "  IdentityFile ~/keys/%h-%p-%r\n"
    "Host * !secret\n"
    "\tPort 2300\r\n"
    "  identityfile /k2\n"
    "  StrictHostKeyChecking yes\n"
    "  UserKnownHostsFile ~/kh /other\n"
    "Match user x\n"
    "  HostName wrong\n"
    "Match all\n"
    "  ConnectTimeout 7\n";

SshSettings Settings(std::string_view config, const std::string& host,
                     const SshOverrides& overrides = {}) {
  std::vector<std::string> warnings;
  const std::vector<SshConfigLine> lines = ReadSshConfig(config, host, warnings);
  Result<SshSettings> settings =
      SettingsFromLines(lines, {.host = host}, overrides, {"me", "/home/me", "/agent"});
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  return settings.ok() ? std::move(*settings) : SshSettings{};
}

SshSettings FromG(std::string_view output, const SshTarget& target = {.host = "h"}) {
  return SettingsFromLines(ParseSshG(output), target, {}, {"me", "/home/me", "/agent"}).value();
}

TEST(SshConfigTest, FirstValueWinsAndFilesAddUp) {
  const SshSettings settings = Settings(kConfig, "node1");
  EXPECT_EQ(settings.port, 2200);
  EXPECT_EQ(settings.host_name, "10.0.0.1");
  EXPECT_EQ(settings.user, "eva braun");
  EXPECT_EQ(settings.identity_files, (Paths{"/home/me/keys/10.0.0.1-2200-eva braun", "/k2"}));
  EXPECT_EQ(settings.host_key_policy, HostKeyPolicy::kYes);
  EXPECT_EQ(settings.user_known_hosts_files, (Paths{"/home/me/kh", "/other"}));
  EXPECT_EQ(settings.connect_timeout, std::chrono::seconds(7));
  EXPECT_EQ(settings.needs_openssh, "");
}

TEST(SshConfigTest, PatternsSelectAndExclude) {
  EXPECT_EQ(Settings(kConfig, "node22").host_name, "10.0.0.1");
  EXPECT_EQ(Settings(kConfig, "node3").host_name, "node3");
  const SshSettings secret = Settings(kConfig, "secret");
  EXPECT_EQ(secret.host_key_policy, HostKeyPolicy::kAcceptNew);
  EXPECT_EQ(secret.user, "me");
  EXPECT_EQ(secret.identity_files.back(), "/home/me/.ssh/id_ed25519");
  EXPECT_EQ(secret.identity_agent, "/agent");
}

TEST(SshConfigTest, WhatTheReaderLeavesOutIsSaid) {
  std::vector<std::string> warnings;
  const std::vector<SshConfigLine> lines =
      ReadSshConfig("Include x\nMatch exec foo\nPort 1\nHost b\nPort 2\n", "b", warnings);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("line 1: Include"), std::string::npos);
  EXPECT_NE(warnings[1].find("line 2: Match"), std::string::npos);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].words[0], "2");
}

TEST(SshConfigTest, TheCommandLineIsStrongerThanTheFileAndTheHostStronger) {
  const SshOverrides overrides = {
      .port = 99, .identity_file = "~/mine", .host_key_policy = HostKeyPolicy::kNo};
  const SshSettings settings = Settings(kConfig, "node1", overrides);
  EXPECT_EQ(settings.port, 99);
  EXPECT_EQ(settings.identity_files[0], "/home/me/mine");
  EXPECT_TRUE(settings.has_explicit_identity);
  EXPECT_EQ(settings.host_key_policy, HostKeyPolicy::kNo);
  const SshTarget target = {"node1", "root", 44};
  const SshSettings own = SettingsFromLines({}, target, overrides, {"me", "/home/me", ""}).value();
  EXPECT_EQ(own.port, 44);
  EXPECT_EQ(own.user, "root");
}

TEST(SshConfigTest, OutputOfSshIsUnderstood) {
  const SshSettings settings = FromG(
      "host h\nuser eva\nhostname real.example\nport 2022\nidentityfile ~/a key\n"
      "identityfile /b\nidentitiesonly yes\nstricthostkeychecking ask\nhashknownhosts yes\n"
      "userknownhostsfile /kh1 /kh2\nglobalknownhostsfile none\nconnecttimeout none\n"
      "passwordauthentication no\nidentityagent none\nhostkeyalias alias\nsendenv \n");
  EXPECT_EQ(settings.host_name, "real.example");
  EXPECT_EQ(settings.user, "eva");
  EXPECT_EQ(settings.port, 2022);
  EXPECT_EQ(settings.identity_files, (Paths{"/home/me/a key", "/b"}));
  EXPECT_TRUE(settings.identities_only);
  EXPECT_TRUE(settings.hash_known_hosts);
  EXPECT_EQ(settings.host_key_policy, HostKeyPolicy::kAcceptNew);
  EXPECT_EQ(settings.user_known_hosts_files, (Paths{"/kh1", "/kh2"}));
  EXPECT_EQ(settings.global_known_hosts_files, Paths{});
  EXPECT_EQ(settings.connect_timeout, Duration::zero());
  EXPECT_FALSE(settings.allows_password);
  EXPECT_EQ(settings.identity_agent, "");
  EXPECT_EQ(settings.host_key_alias, "alias");
}

TEST(SshConfigTest, AHostsOwnNameForItsKeyWinsAndItsAddressIsNotLookedUp) {
  const SshTarget target = {.host = "203.0.113.7", .host_key_alias = "i-0abc"};
  const std::vector<SshConfigLine> lines = ParseSshG("hostkeyalias pool\ncheckhostip yes\n");
  const SshSettings own = SettingsFromLines(lines, target, {}, {"me", "/home/me", ""}).value();
  EXPECT_EQ(own.host_key_alias, "i-0abc");
  EXPECT_EQ(own.host_name, "203.0.113.7");
  EXPECT_FALSE(own.checks_address);
}

TEST(SshConfigTest, SaysWhenOnlyTheSystemsSshWillDo) {
  EXPECT_NE(FromG("proxyjump bastion\n").needs_openssh.find("proxyjump bastion"),
            std::string::npos);
  EXPECT_NE(FromG("proxycommand nc %h %p\n").needs_openssh.find("nc %h %p"), std::string::npos);
  EXPECT_NE(FromG("certificatefile /c\n").needs_openssh, "");
  EXPECT_NE(FromG("pkcs11provider /lib/p.so\n").needs_openssh, "");
  EXPECT_NE(FromG("pubkeyauthentication false\ngssapiauthentication yes\n").needs_openssh, "");
  EXPECT_NE(FromG("preferredauthentications gssapi-with-mic\n").needs_openssh, "");
  EXPECT_EQ(FromG("proxyjump none\nproxycommand none\npubkeyauthentication true\n"
                  "gssapiauthentication yes\n")
                .needs_openssh,
            "");
}

TEST(SshConfigTest, WhatTheLibraryCannotCheckIsLeftToTheSystemsSsh) {
  for (const char* line :
       {"revokedhostkeys /etc/ssh/revoked", "knownhostscommand /usr/bin/keys %H",
        "verifyhostkeydns true", "verifyhostkeydns yes", "verifyhostkeydns ask",
        "refuseconnection not today", "rekeylimit 1073741824 3600", "addressfamily inet6",
        "pubkeyauthentication host-bound", "pubkeyacceptedalgorithms rsa-sha2-512,ssh-ed25519",
        "ciphers aes256-gcm@openssh.com", "macs hmac-sha2-512-etm@openssh.com",
        "kexalgorithms sntrup761x25519-sha512@openssh.com", "hostkeyalgorithms rsa-sha2-512",
        "preferredauthentications hostbased", "preferredauthentications gssapi-with-mic,password",
        "preferredauthentications none"}) {
    EXPECT_NE(FromG(line).needs_openssh, "") << line;
  }
  for (const char* line :
       {"revokedhostkeys none", "knownhostscommand none", "verifyhostkeydns false",
        "verifyhostkeydns no", "rekeylimit 0 0", "rekeylimit default none", "addressfamily any",
        "pubkeyauthentication unbound", "pubkeyacceptedalgorithms +ssh-rsa", "ciphers ^aes256-ctr",
        "macs +hmac-sha1", "preferredauthentications password,publickey"}) {
    EXPECT_EQ(FromG(line).needs_openssh, "") << line;
  }
}

TEST(SshConfigTest, AlgorithmsAreThoseThatTheConfigurationLeaves) {
  const SshAlgorithms all;
  EXPECT_EQ(FromG("user u\n").algorithms, all);
  const SshAlgorithms some =
      FromG(
          "ciphers aes256-gcm@openssh.com,aes256-ctr,aes192-ctr\nmacs -hmac-sha2-256*\n"
          "hostkeyalgorithms ssh-ed25519,rsa-sha2-512\nkexalgorithms curve25519-*\n")
          .algorithms;
  EXPECT_EQ(some.ciphers, "aes192-ctr,aes256-ctr") << "in the library's order";
  EXPECT_EQ(some.macs, "hmac-sha2-512");
  EXPECT_EQ(some.host_keys, "ssh-ed25519");
  EXPECT_EQ(some.key_exchanges, "curve25519-sha256,curve25519-sha256@libssh.org");
}

TEST(SshConfigTest, WaysInThatTheConfigurationForbidsAreNotTried) {
  EXPECT_TRUE(FromG("user u\n").allows_public_key);
  EXPECT_FALSE(FromG("pubkeyauthentication false\n").allows_public_key);
  EXPECT_FALSE(FromG("challengeresponseauthentication no\n").allows_keyboard_interactive);
  const SshSettings keys = FromG("preferredauthentications publickey\n");
  EXPECT_TRUE(keys.allows_public_key);
  EXPECT_FALSE(keys.allows_password || keys.allows_keyboard_interactive);
  EXPECT_EQ(FromG("numberofpasswordprompts 1\n").max_questions, 1);
  EXPECT_EQ(FromG("numberofpasswordprompts 7\n").max_questions, 3);
  EXPECT_FALSE(FromG("numberofpasswordprompts 0\n").allows_questions);
  EXPECT_TRUE(FromG("checkhostip yes\n").checks_address);
  EXPECT_FALSE(FromG("checkhostip no\n").checks_address);
}

TEST(SshConfigTest, ValuesWithoutSenseAreErrors) {
  for (const char* line :
       {"port x", "port 0", "port 70000", "connecttimeout -1", "stricthostkeychecking perhaps"}) {
    const auto settings = SettingsFromLines(ParseSshG(line), {.host = "h"}, {}, {});
    EXPECT_EQ(settings.status().code(), ErrorCode::kSpecInvalid) << line;
  }
}

TEST(SshConfigTest, UnknownTokensAndLoneSignsStay) {
  EXPECT_EQ(FromG("identityfile /a%%b%q%\n").identity_files[0], "/a%b%q%");
}

}  // namespace
}  // namespace hvdray
