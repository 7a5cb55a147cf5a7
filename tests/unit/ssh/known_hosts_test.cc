#include "cluster/ssh/known_hosts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/base64.h"
#include "base/fd.h"
#include "cluster/ssh/wire_text.h"
#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

std::string Blob(std::string_view algorithm, std::string_view key) {
  std::string blob;
  AppendSshString(blob, algorithm);
  AppendSshString(blob, key);
  return blob;
}
const std::string kA = Blob("ssh-ed25519", "a");
const std::string kB = Blob("ssh-ed25519", "b");
const std::string kRsa = Blob("ssh-rsa", "c");

HostKeyLookup LookUp(const std::string& text, std::string_view name, ByteView blob) {
  const std::vector<KnownHostsFile> files = {{"kh", text}};
  return LookUpHostKey(files, name, blob);
}
HostKeyMatch Match(const std::string& text, std::string_view name, ByteView blob) {
  return LookUp(text, name, blob).match;
}
std::string Row(std::string_view names, ByteView blob) { return KnownHostsLine(names, blob, ""); }

TEST(KnownHostsTest, NamesCarryThePortWhenItIsNotTheUsualOne) {
  EXPECT_EQ(KnownHostsName("Node7", 22), "node7");
  EXPECT_EQ(KnownHostsName("::1", 2222), "[::1]:2222");
}

TEST(KnownHostsTest, FindsPlainNamesListsWildcardsAndPorts) {
  EXPECT_EQ(Match(Row("a,b", kA), "b", kA), HostKeyMatch::kKnown);
  EXPECT_EQ(Match(Row("*.x.org,!bad.x.org", kA), "a.x.org", kA), HostKeyMatch::kKnown);
  EXPECT_EQ(Match(Row("*.x.org,!bad.x.org", kA), "bad.x.org", kA), HostKeyMatch::kUnknown);
  EXPECT_EQ(Match(Row("[a]:2222", kA), "[a]:2222", kA), HostKeyMatch::kKnown);
  EXPECT_EQ(Match(Row("[a]:2222", kA), "a", kA), HostKeyMatch::kUnknown);
  EXPECT_EQ(Match(Row("NODE", kA), "node", kA), HostKeyMatch::kKnown);
}

TEST(KnownHostsTest, HashedNamesAreThoseThatSshWrites) {
  const std::string hashed = KnownHostsLine("hidden", kA, std::string(20, 's'));
  EXPECT_EQ(hashed.rfind("|1|c3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3M=|", 0), 0u) << hashed;
  EXPECT_EQ(hashed.find("hidden"), std::string::npos);
  EXPECT_EQ(Match(hashed, "hidden", kA), HostKeyMatch::kKnown);
  EXPECT_EQ(Match(hashed, "other", kA), HostKeyMatch::kUnknown);
}

TEST(KnownHostsTest, AChangedKeyNamesTheLineOfTheOldOne) {
  const HostKeyLookup found = LookUp("# c\n\n" + Row("h", kA) + "\n", "h", kB);
  EXPECT_EQ(found, (HostKeyLookup{HostKeyMatch::kChanged, "kh", 3, HostKeyFingerprint(kA)}));
  EXPECT_EQ(found.fingerprint.rfind("SHA256:", 0), 0u);
  EXPECT_EQ(found.fingerprint.size(), 7u + 43u);
}

TEST(KnownHostsTest, AKeyOfAnotherTypeCountsAsChanged) {
  EXPECT_EQ(Match(Row("h", kRsa), "h", kA), HostKeyMatch::kChanged);
  EXPECT_EQ(Match(Row("h", kRsa) + "\n" + Row("h", kA), "h", kA), HostKeyMatch::kKnown);
}

TEST(KnownHostsTest, RevokedKeysAreRefusedWhateverElseStandsThere) {
  EXPECT_EQ(Match(Row("h", kA) + "\n@revoked " + Row("*", kA), "h", kA), HostKeyMatch::kRevoked);
  EXPECT_EQ(Match("@revoked " + Row("*", kA), "h", kB), HostKeyMatch::kUnknown);
}

TEST(KnownHostsTest, CertificateAuthoritiesSayNothingOfPlainKeys) {
  EXPECT_EQ(Match("@cert-authority " + Row("*", kA), "h", kA), HostKeyMatch::kUnknown);
  EXPECT_EQ(Match("@cert-authority " + Row("*", kA), "h", kB), HostKeyMatch::kUnknown);
}

TEST(KnownHostsTest, DamagedLinesArePassedOver) {
  const std::string damage =
      "h\nh ssh-ed25519\n|1|x|y ssh-ed25519 AAAA\n|1| k k\n@revoked\n@x\nh a !!\n";
  EXPECT_EQ(Match(damage, "h", kA), HostKeyMatch::kUnknown);
  EXPECT_EQ(Match(damage + Row("h", kA), "h", kA), HostKeyMatch::kKnown);
}

TEST(KnownHostsTest, AlgorithmsAreThoseOfTheHostsOwnKeys) {
  const std::vector<KnownHostsFile> files = {{"kh", Row("h", kRsa) + "\n@revoked " +
                                                        Row("h", Blob("x", "")) + "\n" +
                                                        Row("h", kA) + "\n" + Row("h", kB)}};
  EXPECT_EQ(KnownAlgorithms(files, "h"), (std::vector<std::string>{"ssh-rsa", "ssh-ed25519"}));
}

class KnownHostsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    settings_.host_name = "h";
    settings_.user_known_hosts_files = {folder_ / "ssh/known_hosts"};
    settings_.global_known_hosts_files = {folder_ / "global"};
  }
  std::string Text() { return ReadFile(settings_.user_known_hosts_files[0]).value(); }

  TempFolder folder_;
  SshSettings settings_;
};

TEST_F(KnownHostsFileTest, ANewHostIsAddedOnceInAFolderForTheUserAlone) {
  EXPECT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  EXPECT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  EXPECT_EQ(Text(), Row("h", kA) + "\n");
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "ssh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((folder_ / "ssh/known_hosts").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(KnownHostsFileTest, AChangedKeyIsRefusedWithFileLineAndFingerprints) {
  ASSERT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  const Status status = CheckHostKey(settings_, "node7", kB);
  EXPECT_EQ(status.code(), ErrorCode::kHostKeyRejected);
  for (const std::string& part : {folder_ / "ssh/known_hosts:1", HostKeyFingerprint(kA),
                                  HostKeyFingerprint(kB), std::string("node7")}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  EXPECT_EQ(Text(), Row("h", kA) + "\n");
}

TEST_F(KnownHostsFileTest, PolicyYesTakesKnownHostsOnly) {
  settings_.host_key_policy = HostKeyPolicy::kYes;
  const Status status = CheckHostKey(settings_, "h", kA);
  EXPECT_EQ(status.code(), ErrorCode::kHostKeyRejected);
  EXPECT_NE(status.message().find(HostKeyFingerprint(kA)), std::string::npos);
  ASSERT_TRUE(WriteFileAtomically(folder_ / "global", Row("h", kA)).ok());
  EXPECT_TRUE(CheckHostKey(settings_, "h", kA).ok());
}

TEST_F(KnownHostsFileTest, PolicyNoLetsChangedKeysPassButNotRevokedOnes) {
  settings_.host_key_policy = HostKeyPolicy::kNo;
  ASSERT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  EXPECT_TRUE(CheckHostKey(settings_, "h", kB).ok());
  ASSERT_TRUE(WriteFileAtomically(folder_ / "global", "@revoked " + Row("*", kB)).ok());
  EXPECT_EQ(CheckHostKey(settings_, "h", kB).code(), ErrorCode::kHostKeyRejected);
}

TEST_F(KnownHostsFileTest, AnOpenLastLineIsEndedFirst) {
  ASSERT_EQ(::mkdir((folder_ / "ssh").c_str(), 0700), 0);
  ASSERT_TRUE(WriteFileAtomically(folder_ / "ssh/known_hosts", Row("other", kB)).ok());
  ASSERT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  EXPECT_EQ(Text(), Row("other", kB) + "\n" + Row("h", kA) + "\n");
}

TEST_F(KnownHostsFileTest, ManyAtOnceWriteTheHostOnce) {
  settings_.hash_known_hosts = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { EXPECT_TRUE(CheckHostKey(settings_, "h", kA).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = Text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.rfind("|1|", 0), 0u);
}

TEST_F(KnownHostsFileTest, AFileThatCannotBeWrittenDoesNotStopTheConnection) {
  settings_.user_known_hosts_files = {"/proc/no/known_hosts"};
  EXPECT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  settings_.user_known_hosts_files = {"/dev/null"};
  EXPECT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  settings_.user_known_hosts_files = {};
  EXPECT_TRUE(CheckHostKey(settings_, "h", kA).ok());
}

TEST_F(KnownHostsFileTest, TheAliasIsTheNameWhateverThePort) {
  settings_.port = 2222;
  settings_.host_key_alias = "Pool";
  ASSERT_TRUE(CheckHostKey(settings_, "h", kA).ok());
  EXPECT_EQ(Text(), Row("pool", kA) + "\n");
}

}  // namespace
}  // namespace hvdray
