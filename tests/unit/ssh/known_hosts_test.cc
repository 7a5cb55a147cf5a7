// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/known_hosts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/base64.h"
#include "base/fd.h"
#include "base/file.h"
#include "cluster/ssh/wire_text.h"
#include "tests/fakes/temp_directory.h"

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

TEST(KnownHostsTest, AHostWithACertificateAuthorityIsNoHostForPlainKeys) {
  const auto has = [](const std::string& text, std::string_view name) {
    return HasHostAuthority(std::vector<KnownHostsFile>{{"kh", text}}, name);
  };
  EXPECT_TRUE(has("@cert-authority " + Row("*.x.org", kA), "a.x.org"));
  EXPECT_FALSE(has("@cert-authority " + Row("*.x.org,!a.x.org", kA), "a.x.org"));
  EXPECT_FALSE(has("@revoked " + Row("*", kA) + "\n" + Row("a", kA), "a"));
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
    settings_.user_known_hosts_files = {directory_ / "ssh/known_hosts"};
    settings_.global_known_hosts_files = {directory_ / "global"};
  }
  Result<HostKeyMatch> Check(std::string_view host, const std::string& blob) {
    return CheckHostKey(settings_, host, blob, SshLimit::In(std::chrono::minutes(1)));
  }
  Status CheckAddress(const std::string& address, const std::string& blob) {
    return CheckHostAddress(settings_, address, blob, SshLimit::In(std::chrono::minutes(1)));
  }
  std::string Text() { return ReadFile(settings_.user_known_hosts_files[0]).value(); }

  TempDirectory directory_;
  SshSettings settings_;
};

TEST_F(KnownHostsFileTest, ANewHostIsAddedOnceInADirectoryForTheUserAlone) {
  EXPECT_TRUE(Check("h", kA).ok());
  EXPECT_TRUE(Check("h", kA).ok());
  EXPECT_EQ(Text(), Row("h", kA) + "\n");
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "ssh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((directory_ / "ssh/known_hosts").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(KnownHostsFileTest, AChangedKeyIsRefusedWithFileLineAndFingerprints) {
  ASSERT_TRUE(Check("h", kA).ok());
  const Status status = Check("node7", kB).status();
  EXPECT_EQ(status.code(), ErrorCode::kHostKeyRejected);
  for (const std::string& part : {directory_ / "ssh/known_hosts:1", HostKeyFingerprint(kA),
                                  HostKeyFingerprint(kB), std::string("node7")}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  EXPECT_EQ(Text(), Row("h", kA) + "\n");
}

TEST_F(KnownHostsFileTest, PolicyYesTakesKnownHostsOnly) {
  settings_.host_key_policy = HostKeyPolicy::kYes;
  const Status status = Check("h", kA).status();
  EXPECT_EQ(status.code(), ErrorCode::kHostKeyRejected);
  EXPECT_NE(status.message().find(HostKeyFingerprint(kA)), std::string::npos);
  ASSERT_TRUE(WriteFileAtomically(directory_ / "global", Row("h", kA)).ok());
  EXPECT_TRUE(Check("h", kA).ok());
}

TEST_F(KnownHostsFileTest, PolicyNoLetsChangedKeysPassButNotRevokedOnes) {
  settings_.host_key_policy = HostKeyPolicy::kNo;
  EXPECT_EQ(Check("h", kA).value(), HostKeyMatch::kUnknown);
  EXPECT_EQ(Check("h", kA).value(), HostKeyMatch::kKnown);
  EXPECT_EQ(Check("h", kB).value(), HostKeyMatch::kChanged) << "the caller has to know";
  ASSERT_TRUE(WriteFileAtomically(directory_ / "global", "@revoked " + Row("*", kB)).ok());
  EXPECT_EQ(Check("h", kB).status().code(), ErrorCode::kHostKeyRejected);
}

TEST_F(KnownHostsFileTest, AnOpenLastLineIsEndedFirst) {
  ASSERT_EQ(::mkdir((directory_ / "ssh").c_str(), 0700), 0);
  ASSERT_TRUE(WriteFileAtomically(directory_ / "ssh/known_hosts", Row("other", kB)).ok());
  ASSERT_TRUE(Check("h", kA).ok());
  EXPECT_EQ(Text(), Row("other", kB) + "\n" + Row("h", kA) + "\n");
}

TEST_F(KnownHostsFileTest, ManyAtOnceWriteTheHostOnce) {
  settings_.hash_known_hosts = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { EXPECT_TRUE(Check("h", kA).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = Text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.rfind("|1|", 0), 0u);
}

TEST_F(KnownHostsFileTest, AFileThatCannotBeWrittenDoesNotStopTheConnection) {
  settings_.user_known_hosts_files = {"/proc/no/known_hosts"};
  EXPECT_TRUE(Check("h", kA).ok());
  settings_.user_known_hosts_files = {"/dev/null"};
  EXPECT_TRUE(Check("h", kA).ok());
  settings_.user_known_hosts_files = {};
  EXPECT_TRUE(Check("h", kA).ok());
}

TEST_F(KnownHostsFileTest, AFileThatSomebodyKeepsLockedIsGivenUp) {
  ASSERT_TRUE(Check("h", kA).ok());
  const std::string before = Text();
  const UniqueFd locked(::open(settings_.user_known_hosts_files[0].c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(locked.get(), LOCK_EX), 0);
  settings_.host_name = "other";
  const SshLimit limit = SshLimit::In(std::chrono::milliseconds(50));
  EXPECT_TRUE(CheckHostKey(settings_, "other", kB, limit).ok()) << "not remembered, no more";
  EXPECT_EQ(Text(), before);

  const Pipe cancel = MakePipe().value();
  ASSERT_TRUE(WriteAll(cancel.write_end.get(), "x").ok());
  const SshLimit called_off = SshLimit::In(std::chrono::minutes(1), cancel.read_end.get());
  EXPECT_EQ(CheckHostKey(settings_, "other", kB, called_off).status().code(),
            ErrorCode::kCancelled);
}

TEST_F(KnownHostsFileTest, AnAddressHasAKeyOfItsOwnWhereThatIsChecked) {
  settings_.host_key_policy = HostKeyPolicy::kYes;
  ASSERT_EQ(::mkdir((directory_ / "ssh").c_str(), 0700), 0);
  ASSERT_TRUE(WriteFileAtomically(directory_ / "ssh/known_hosts", Row("h", kA) + "\n").ok());
  EXPECT_TRUE(CheckAddress("10.0.0.7", kA).ok()) << "the host is known by its name";
  EXPECT_EQ(Text(), Row("h", kA) + "\n" + Row("10.0.0.7", kA) + "\n");
  const Status changed = CheckAddress("10.0.0.7", kB);
  EXPECT_EQ(changed.code(), ErrorCode::kHostKeyRejected);
  EXPECT_NE(changed.message().find("h at 10.0.0.7"), std::string::npos) << changed.message();
  settings_.port = 2222;
  EXPECT_TRUE(CheckAddress("10.0.0.7", kB).ok());
  EXPECT_NE(Text().find(Row("[10.0.0.7]:2222", kB)), std::string::npos) << Text();
}

TEST_F(KnownHostsFileTest, TheAliasIsTheNameWhateverThePort) {
  settings_.port = 2222;
  settings_.host_key_alias = "Pool";
  ASSERT_TRUE(Check("h", kA).ok());
  EXPECT_EQ(Text(), Row("pool", kA) + "\n");
}

}  // namespace
}  // namespace hvdray
