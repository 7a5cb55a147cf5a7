#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cluster/ssh/ssh_config.h"
#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

class SshConfigFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    user_ = {"me", folder_.path(), ""};
    overrides_.config_file = folder_ / "config";
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / name, text).ok());
    ::chmod((folder_ / name).c_str(), 0600);
  }
  Result<SshSettings> Resolve(const std::string& host, const std::string& program) {
    return ResolveSshSettings(ParseSshTarget(host).value(), overrides_, user_, program,
                              SshLimit::In(std::chrono::seconds(30)));
  }

  TempFolder folder_;
  SshUser user_;
  SshOverrides overrides_;
};

TEST_F(SshConfigFilesTest, SshAndTheReaderAgree) {
  Write("config", "Host a*\n HostName 10.1.2.3\n Port 2022\n User eva\n IdentityFile " +
                      (folder_ / "k") + "\n IdentitiesOnly yes\n UserKnownHostsFile " +
                      (folder_ / "kh") +
                      "\n StrictHostKeyChecking accept-new\n ConnectTimeout 3\n");
  for (const char* program : {"ssh", "", "no-such-ssh-client"}) {
    const SshSettings settings = Resolve("ab", program).value();
    EXPECT_EQ(settings.host_name, "10.1.2.3") << program;
    EXPECT_EQ(settings.port, 2022);
    EXPECT_EQ(settings.user, "eva");
    EXPECT_EQ(settings.identity_files, std::vector<std::string>{folder_ / "k"});
    EXPECT_TRUE(settings.identities_only);
    EXPECT_EQ(settings.user_known_hosts_files, std::vector<std::string>{folder_ / "kh"});
    EXPECT_EQ(settings.connect_timeout, std::chrono::seconds(3));
    EXPECT_EQ(settings.needs_openssh, "");
  }
}

TEST_F(SshConfigFilesTest, OverridesReachSshItself) {
  Write("config", "Match user root\n Port 77\nHost *\n IdentityFile /second\n");
  overrides_.identity_file = "/first";
  const SshSettings settings = Resolve("root@h", "ssh").value();
  EXPECT_EQ(settings.port, 77);
  EXPECT_EQ(settings.identity_files, (std::vector<std::string>{"/first", "/second"}));
  EXPECT_EQ(Resolve("root@h:78", "ssh").value().port, 78);
}

TEST_F(SshConfigFilesTest, SshsOwnWordsTellOfABadConfiguration) {
  Write("config", "NoSuchKeyword x\n");
  const Result<SshSettings> settings = Resolve("h", "ssh");
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.status().code(), ErrorCode::kSpecInvalid);
  EXPECT_NE(settings.status().message().find("nosuchkeyword"), std::string::npos)
      << settings.status().message();
}

TEST_F(SshConfigFilesTest, AConfigurationThatHangsIsGivenUp) {
  Write("config", "Match exec \"exec sleep 600\"\n Port 77\n");
  const Result<SshSettings> settings = ResolveSshSettings(
      {.host = "h"}, overrides_, user_, "ssh", SshLimit::In(std::chrono::milliseconds(100)));
  EXPECT_EQ(settings.status().code(), ErrorCode::kConnectTimeout);
}

TEST_F(SshConfigFilesTest, RsaKeysAloneNeedTheSystemsSsh) {
  Write("rsa", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n");
  Write("ec", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n");
  Write("config", "IdentityFile " + (folder_ / "rsa") + "\n");
  EXPECT_NE(Resolve("h", "").value().needs_openssh.find("rsa is an RSA key"), std::string::npos);
  Write("config",
        "IdentityFile " + (folder_ / "rsa") + "\nIdentityFile " + (folder_ / "ec") + "\n");
  EXPECT_EQ(Resolve("h", "").value().needs_openssh, "");
  overrides_.identity_file = folder_ / "rsa";
  EXPECT_NE(Resolve("h", "").value().needs_openssh, "") << "the key that was named comes first";
}

TEST_F(SshConfigFilesTest, ACertificateBesideTheKeyNeedsTheSystemsSsh) {
  Write("ec", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n");
  Write("ec-cert.pub", "x");
  Write("config", "IdentityFile " + (folder_ / "ec") + "\n");
  EXPECT_NE(Resolve("h", "").value().needs_openssh.find("certificate"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
