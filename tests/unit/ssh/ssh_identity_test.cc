// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/base64.h"
#include "base/file.h"
#include "cluster/ssh/wire_text.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

std::string Blob(std::string_view algorithm) {
  std::string blob;
  AppendSshString(blob, algorithm);
  AppendSshString(blob, "key");
  return blob;
}

/// The public head of OpenSSH's form; the private part does not matter here.
std::string OpenSshKey(std::string_view cipher, std::string_view algorithm) {
  std::string bytes("openssh-key-v1\0", 15);
  AppendSshString(bytes, cipher);
  AppendSshString(bytes, "none");
  AppendSshString(bytes, "");
  AppendSshUint32(bytes, 1);
  AppendSshString(bytes, Blob(algorithm));
  AppendSshString(bytes, "private");
  return "-----BEGIN OPENSSH PRIVATE KEY-----\n" + EncodeBase64(bytes) +
         "\n-----END OPENSSH PRIVATE KEY-----\n";
}

TEST(SshIdentityTest, OpenSshsFormTellsTypeEncryptionAndPublicKey) {
  const PrivateKeyFacts plain = DescribePrivateKey(OpenSshKey("none", "ssh-ed25519")).value();
  EXPECT_EQ(plain.type, SshKeyType::kEd25519);
  EXPECT_FALSE(plain.is_encrypted);
  EXPECT_EQ(plain.public_blob, Blob("ssh-ed25519"));
  const PrivateKeyFacts locked = DescribePrivateKey(OpenSshKey("aes256-ctr", "ssh-rsa")).value();
  EXPECT_EQ(locked.type, SshKeyType::kRsa);
  EXPECT_TRUE(locked.is_encrypted);
  EXPECT_EQ(DescribePrivateKey(OpenSshKey("none", "sk-ssh-ed25519@openssh.com")).value().type,
            SshKeyType::kSecurityKey);
}

TEST(SshIdentityTest, PemIsKnownByItsLabel) {
  const auto facts = [](const std::string& label, const std::string& head = "") {
    return DescribePrivateKey("-----BEGIN " + label + "-----\n" + head + "AAAA\n-----END " + label +
                              "-----\n");
  };
  EXPECT_EQ(facts("RSA PRIVATE KEY").value().type, SshKeyType::kRsa);
  EXPECT_EQ(facts("EC PRIVATE KEY").value().type, SshKeyType::kEcdsa);
  EXPECT_FALSE(facts("EC PRIVATE KEY").value().is_encrypted);
  EXPECT_TRUE(facts("EC PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\n").value().is_encrypted);
  EXPECT_TRUE(facts("ENCRYPTED PRIVATE KEY").value().is_encrypted);
  EXPECT_EQ(facts("PRIVATE KEY").value().type, SshKeyType::kUnknown);
  EXPECT_FALSE(facts("CERTIFICATE").ok());
  EXPECT_TRUE(
      NamesFacts(facts("TWO\nLINES").status().message(), {"not a private key", "TWO\\x0aLINES"}));
}

TEST(SshIdentityTest, KeysCutAtAnyPlaceAreRefusedOrHarmless) {
  const std::string whole = OpenSshKey("none", "ssh-ed25519");
  for (size_t size = 0; size < whole.size() - 60; ++size) {
    EXPECT_FALSE(DescribePrivateKey(whole.substr(0, size)).ok()) << size;
  }
  std::string bytes("openssh-key-v1\0", 15);
  AppendSshUint32(bytes, 0xffffffff);
  EXPECT_FALSE(DescribePrivateKey("-----BEGIN OPENSSH PRIVATE KEY-----\n" + EncodeBase64(bytes) +
                                  "\n-----END OPENSSH PRIVATE KEY-----\n")
                   .ok());
}

TEST(SshIdentityTest, PublicKeyLineHasToAgreeWithItself) {
  const std::string blob = Blob("ssh-ed25519");
  EXPECT_EQ(BlobOfPublicKeyLine("ssh-ed25519 " + EncodeBase64(blob) + " eva@host\n"), blob);
  EXPECT_EQ(BlobOfPublicKeyLine("ssh-rsa " + EncodeBase64(blob)), "");
  EXPECT_EQ(BlobOfPublicKeyLine("ssh-ed25519"), "");
  EXPECT_EQ(BlobOfPublicKeyLine("ssh-ed25519 !!"), "");
}

class SshIdentityFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text, mode_t mode) {
    const std::string path = directory_ / name;
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    ::chmod(path.c_str(), mode);
    return path;
  }
  TempDirectory directory_;
};

TEST_F(SshIdentityFileTest, AKeyOfOnesOwnIsRead) {
  const std::string path = Write("k", OpenSshKey("none", "ssh-ed25519"), 0600);
  const SshIdentity identity = LoadSshIdentity(path);
  EXPECT_TRUE(identity.exists);
  EXPECT_TRUE(identity.problem.ok());
  EXPECT_EQ(identity.facts.type, SshKeyType::kEd25519);
  EXPECT_FALSE(identity.has_certificate);
}

TEST_F(SshIdentityFileTest, AKeyThatOthersCanReadIsRefusedWithFileAndMode) {
  const std::string path = Write("k", OpenSshKey("none", "ssh-ed25519"), 0644);
  const SshIdentity identity = LoadSshIdentity(path);
  EXPECT_EQ(identity.problem.code(), ErrorCode::kSpecInvalid);
  EXPECT_NE(identity.problem.message().find(path), std::string::npos);
  EXPECT_NE(identity.problem.message().find("0644"), std::string::npos);
  EXPECT_EQ(identity.problem.hint(), "chmod 600 " + path);
  EXPECT_EQ(identity.text, "") << "not to be used by mistake";
}

TEST_F(SshIdentityFileTest, MissingDirectoriesAndNonsenseHaveTheirOwnErrors) {
  const auto problem = [](const std::string& path) { return LoadSshIdentity(path).problem.code(); };
  EXPECT_EQ(problem(directory_.path()), ErrorCode::kFileUnreadable);
  EXPECT_EQ(problem(Write("k", "hello\n", 0600)), ErrorCode::kSpecInvalid);
  EXPECT_EQ(problem(Write("big", std::string(100'000, 'x'), 0600)), ErrorCode::kSpecInvalid);
  EXPECT_FALSE(LoadSshIdentity(directory_ / "none").exists);
}

TEST_F(SshIdentityFileTest, AnEncryptedKeyIsRead) {
  const std::string path = Write("k", OpenSshKey("aes256-ctr", "ssh-ed25519"), 0600);
  const SshIdentity identity = LoadSshIdentity(path);
  EXPECT_TRUE(identity.problem.ok());
  EXPECT_TRUE(identity.facts.is_encrypted);
}

TEST_F(SshIdentityFileTest, ThePublicFileFillsInWhatPemDoesNotTell) {
  const std::string path =
      Write("k", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0600);
  Write("k.pub", "ssh-rsa " + EncodeBase64(Blob("ssh-rsa")) + "\n", 0644);
  const SshIdentity identity = LoadSshIdentity(path);
  EXPECT_EQ(identity.facts.type, SshKeyType::kRsa);
  EXPECT_FALSE(CanSignWithLibssh2(identity.facts.type));
}

}  // namespace
}  // namespace hvdray
