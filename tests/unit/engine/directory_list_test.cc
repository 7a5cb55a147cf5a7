// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/directory_list.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;
using wire::DirectoryEntryKind;

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/directory_list.txt");

class DirectoryListTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text = "x") {
    fs::create_directories(fs::path(temp_ / path).parent_path());
    ASSERT_TRUE(WriteFileAtomically(temp_ / path, text).ok());
  }
  DirectoryListing List() {
    Result<DirectoryListing> listing = ListDirectory(temp_.path());
    EXPECT_TRUE(listing.ok()) << listing.status().ToString();
    return listing.ok() ? std::move(listing).value() : DirectoryListing();
  }
  std::vector<std::string> Paths() {
    std::vector<std::string> paths;
    for (const wire::DirectoryEntry& entry : List().entries) paths.push_back(entry.path);
    return paths;
  }
  using PathList = std::vector<std::string>;

  TempDirectory temp_;
};

TEST_F(DirectoryListTest, EverythingIsListedByNameDirectoriesBeforeWhatIsInThem) {
  Write("b/2", "hello");
  Write("b/1");
  Write("a");
  fs::create_directories(temp_ / "empty");
  fs::create_symlink("../a", temp_ / "b/link");
  ::chmod((temp_ / "b/2").c_str(), 0750);
  const DirectoryListing listing = List();
  EXPECT_EQ(Paths(), (PathList{"a", "b", "b/1", "b/2", "b/link", "empty"}));
  EXPECT_EQ(listing.files, 3U);
  EXPECT_EQ(listing.bytes, 7U);
  const wire::DirectoryEntry& file = listing.entries[3];
  EXPECT_EQ(file.kind, DirectoryEntryKind::kFile);
  EXPECT_EQ(file.size, 5U);
  EXPECT_EQ(file.mode, 0750);
  struct stat info {};
  ::stat((temp_ / "b/2").c_str(), &info);
  EXPECT_EQ(file.mtime_s, info.st_mtim.tv_sec);
  EXPECT_EQ(file.mtime_ns, info.st_mtim.tv_nsec);
  EXPECT_EQ(listing.entries[4].kind, DirectoryEntryKind::kLink);
  EXPECT_EQ(listing.entries[4].link, "../a");
  EXPECT_TRUE(listing.warnings.empty());
}

TEST_F(DirectoryListTest, GitAndOurOwnTemporariesAreLeftOut) {
  Write(".git/config");
  Write("sub/.git");
  Write("sub/.hvdray-sync.h1.5.1");
  Write("x");
  EXPECT_EQ(Paths(), (PathList{"sub", "x"}));
}

TEST_F(DirectoryListTest, IgnoreFilesCountFromTheirDirectoryDown) {
  Write(".gitignore", "*.log\n/build/\n");
  Write("a.log");
  Write("build/x");
  Write("sub/build/x");
  Write("sub/.gitignore", "!keep.log\n/only\n");
  Write("sub/keep.log");
  Write("sub/drop.log");
  Write("sub/only");
  Write("sub/deeper/only");
  EXPECT_EQ(Paths(), (PathList{".gitignore", "sub", "sub/.gitignore", "sub/build", "sub/build/x",
                               "sub/deeper", "sub/deeper/only", "sub/keep.log"}));
}

TEST_F(DirectoryListTest, NothingInAnIgnoredDirectoryComesBack) {
  Write(".gitignore", "out/\n!out/keep\n");
  Write("out/.gitignore", "!keep\n");
  Write("out/keep");
  EXPECT_EQ(Paths(), (PathList{".gitignore"}));
}

TEST_F(DirectoryListTest, LinkNamedGitignoreIsNoIgnoreFile) {
  Write("rules", "x\n");
  Write("x");
  fs::create_symlink("rules", temp_ / ".gitignore");
  EXPECT_EQ(Paths(), (PathList{".gitignore", "rules", "x"}));
}

TEST_F(DirectoryListTest, DirectoryThatForbidsItsOwnerComesOnceMoreAtTheEnd) {
  Write("a/b/x");
  Write("c");
  ::chmod((temp_ / "a/b").c_str(), 0500);
  ::chmod((temp_ / "a").c_str(), 0555);
  const DirectoryListing listing = List();
  ASSERT_EQ(listing.entries.size(), 6U);
  EXPECT_EQ(listing.entries[4].kind, DirectoryEntryKind::kDirectoryMode);
  EXPECT_EQ(listing.entries[4].path, "a/b");
  EXPECT_EQ(listing.entries[4].mode, 0500);
  EXPECT_EQ(listing.entries[5].path, "a");
  ::chmod((temp_ / "a").c_str(), 0755);
  ::chmod((temp_ / "a/b").c_str(), 0755);
}

TEST_F(DirectoryListTest, PipesAndSocketsAreRefusedByTheirPlace) {
  Write("a");
  ASSERT_EQ(::mkfifo((temp_ / "pipe").c_str(), 0600), 0);
  Result<DirectoryListing> listing = ListDirectory(temp_.path());
  ASSERT_FALSE(listing.ok());
  ExpectError(listing.status(), ErrorCode::kUsage, {temp_ / "pipe", "named pipe"});
  ASSERT_EQ(::mknod((temp_ / "another").c_str(), S_IFSOCK | 0600, 0), 0);
  listing = ListDirectory(temp_.path());
  ExpectError(listing.status(), ErrorCode::kUsage, {temp_ / "another", "socket", "1 more"});
  Write(".gitignore", "pipe\nanother\n");
  EXPECT_TRUE(ListDirectory(temp_.path()).ok()) << "what is ignored is not looked at";
}

TEST_F(DirectoryListTest, UnreadablePlacesAreRefused) {
  if (::geteuid() == 0 && ::seteuid(65534) != 0) GTEST_SKIP() << "cannot be another user";
  TempDirectory own;
  ASSERT_TRUE(WriteFileAtomically(own / "secret", "x").ok());
  ::chmod((own / "secret").c_str(), 0);
  const Result<DirectoryListing> listing = ListDirectory(own.path());
  fs::create_directories(own / "closed");
  ::chmod((own / "secret").c_str(), 0600);
  ::chmod((own / "closed").c_str(), 0);
  const Result<DirectoryListing> closed = ListDirectory(own.path());
  ::chmod((own / "closed").c_str(), 0700);
  fs::remove_all(own.path());
  if (::getuid() == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(listing.status().code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(listing.status().message(), own / "secret" + ": Permission denied");
  EXPECT_EQ(closed.status().message(), own / "closed" + ": Permission denied");
}

TEST_F(DirectoryListTest, LinksThatLeadNowhereOrOutAreCopiedWithAWarningEach) {
  fs::create_symlink("gone", temp_ / "dangling");
  fs::create_symlink("/etc", temp_ / "absolute");
  fs::create_directories(temp_ / "sub");
  fs::create_symlink("../../up", temp_ / "sub/up");
  fs::create_symlink("../sub", temp_ / "sub/in");
  const DirectoryListing listing = List();
  EXPECT_EQ(listing.entries.size(), 5U);
  ASSERT_EQ(listing.warnings.size(), 2U);
  ExpectSays(listing.warnings[0], {temp_ / "dangling -> gone", "nowhere"});
  ExpectSays(listing.warnings[1], {temp_ / "absolute -> /etc", "out of", "1 more"});
}

TEST_F(DirectoryListTest, DirectoryThatIsNotThereSaysSo) {
  EXPECT_EQ(ListDirectory(temp_ / "none").status().code(), ErrorCode::kFileUnreadable);
}

}  // namespace
}  // namespace hvdray
