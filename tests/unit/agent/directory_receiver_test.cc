// SPDX-License-Identifier: Apache-2.0
#include "agent/directory_receiver.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;
using wire::DirectoryEntry;
using wire::DirectoryEntryKind;

constexpr int64_t kTime = 1'714'564'800;
constexpr uint32_t kNanoseconds = 123'456'789;

DirectoryEntry FileEntry(std::string path, uint64_t size, uint16_t mode = 0644) {
  return {DirectoryEntryKind::kFile, mode, size, kTime, kNanoseconds, std::move(path), ""};
}
DirectoryEntry DirectoryOf(std::string path, uint16_t mode = 0755) {
  return {DirectoryEntryKind::kDirectory, mode, 0, 0, 0, std::move(path), ""};
}
DirectoryEntry LinkOf(std::string path, std::string text) {
  return {DirectoryEntryKind::kLink, 0777, 0, 0, 0, std::move(path), std::move(text)};
}
wire::File Chunk(uint32_t entry, std::string bytes, bool is_end = true, uint16_t mode = 0644) {
  wire::File file;
  file.entry = entry;
  file.is_end = is_end;
  if (is_end) {
    file.mode = mode;
    file.mtime_s = kTime;
    file.mtime_ns = kNanoseconds;
  }
  file.bytes = std::move(bytes);
  return file;
}

class DirectoryReceiverTest : public testing::Test {
 protected:
  DirectoryReceiverTest() : root_(temp_ / "target") { receiver_.emplace(temp_.path()); }

  wire::Body List(std::vector<DirectoryEntry> entries, std::string target = "target",
                  uint32_t directory = 0) {
    Result<wire::Body> answer =
        receiver_->OnList({directory, std::move(target), trustees_, std::move(entries)});
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? std::move(answer).value() : wire::Body();
  }
  wire::DirectoryWanted Wanted(std::vector<DirectoryEntry> entries, std::string target = "target") {
    const wire::Body answer = List(std::move(entries), std::move(target));
    const auto* wanted = std::get_if<wire::DirectoryWanted>(&answer);
    if (wanted != nullptr) return *wanted;
    ADD_FAILURE() << std::get<wire::DirectoryProblem>(answer).step;
    return {};
  }
  wire::DirectoryProblem Problem(std::vector<DirectoryEntry> entries,
                                 std::string target = "target") {
    const wire::Body answer = List(std::move(entries), std::move(target));
    const auto* problem = std::get_if<wire::DirectoryProblem>(&answer);
    return problem != nullptr ? *problem : wire::DirectoryProblem{-1, "none", ""};
  }
  std::optional<wire::Body> Send(const wire::File& file) {
    Result<std::optional<wire::Body>> answer = receiver_->OnFile(file);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? std::move(answer).value() : std::nullopt;
  }
  std::string Read(const std::string& path) const { return ReadFile(root_ + "/" + path).value(); }
  struct stat Look(const std::string& path) const {
    struct stat info {};
    EXPECT_EQ(::lstat((root_ + "/" + path).c_str(), &info), 0) << path;
    return info;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      names.push_back(fs::relative(entry.path(), root_).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDirectory temp_;
  const std::string root_;
  std::optional<DirectoryReceiver> receiver_;
  Trustees trustees_;
};

TEST_F(DirectoryReceiverTest, NewFilesAreWantedAndLandWithTimeAndMode) {
  const wire::DirectoryWanted wanted =
      Wanted({DirectoryOf("a"), FileEntry("a/b", 5), FileEntry("run", 0, 0755)});
  EXPECT_EQ(wanted.root, root_);
  EXPECT_EQ(wanted.ranges, (std::vector<wire::EntryRange>{{1, 2}}));
  EXPECT_FALSE(Send(Chunk(1, "he", false)).has_value());
  EXPECT_FALSE(fs::exists(root_ + "/a/b")) << "nothing shows before it is whole";
  Send(Chunk(1, "llo"));
  const std::optional<wire::Body> last = Send(Chunk(2, "", true, 0755));
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(std::get<wire::FileTaken>(*last), (wire::FileTaken{2, 5}));
  EXPECT_EQ(Read("a/b"), "hello");
  EXPECT_EQ(Look("a/b").st_mtim.tv_sec, kTime);
  EXPECT_EQ(Look("a/b").st_mtim.tv_nsec, kNanoseconds);
  EXPECT_EQ(Look("run").st_mode & 0777, 0755U);
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "a/b", "run"}));
}

TEST_F(DirectoryReceiverTest, WhatIsTheSameIsNotWantedAgain) {
  Wanted({FileEntry("f", 2)});
  Send(Chunk(0, "ab"));
  EXPECT_TRUE(Wanted({FileEntry("f", 2)}).ranges.empty());
  DirectoryEntry other = FileEntry("f", 2);
  other.mtime_ns += 1;
  EXPECT_EQ(Wanted({other}).ranges.size(), 1U);
}

TEST_F(DirectoryReceiverTest, DifferentSizeIsWantedAndReplacesTheFile) {
  Wanted({FileEntry("f", 2)});
  Send(Chunk(0, "ab"));
  EXPECT_EQ(Wanted({FileEntry("f", 3)}).ranges.size(), 1U);
  const auto before = Look("f").st_ino;
  Send(Chunk(0, "abc"));
  EXPECT_EQ(Read("f"), "abc");
  EXPECT_NE(Look("f").st_ino, before) << "who reads the old one goes on reading the old one";
}

TEST_F(DirectoryReceiverTest, AnotherModeAloneIsMendedWithoutTheBytes) {
  Wanted({FileEntry("f", 2)});
  Send(Chunk(0, "ab"));
  EXPECT_TRUE(Wanted({FileEntry("f", 2, 0755)}).ranges.empty());
  EXPECT_EQ(Look("f").st_mode & 0777, 0755U);
}

TEST_F(DirectoryReceiverTest, FilesThatAreOnlyThereAreKept) {
  fs::create_directories(root_ + "/a");
  ASSERT_TRUE(WriteFileAtomically(root_ + "/a/own", "mine").ok());
  Wanted({DirectoryOf("a"), FileEntry("a/b", 1)});
  Send(Chunk(1, "x"));
  EXPECT_EQ(Read("a/own"), "mine");
}

TEST_F(DirectoryReceiverTest, LinksAreMadeAtOnceAndComparedByWhatTheySay) {
  EXPECT_EQ(Wanted({LinkOf("l", "../x"), LinkOf("m", "/nowhere")}).links, 2U);
  EXPECT_EQ(fs::read_symlink(root_ + "/l"), "../x");
  EXPECT_EQ(Wanted({LinkOf("l", "../x"), LinkOf("m", "/elsewhere")}).links, 1U);
  EXPECT_EQ(fs::read_symlink(root_ + "/m"), "/elsewhere");
}

TEST_F(DirectoryReceiverTest, FileAndLinkTakeEachOthersPlace) {
  Wanted({LinkOf("x", "y")});
  EXPECT_EQ(Wanted({FileEntry("x", 1)}).ranges.size(), 1U);
  Send(Chunk(0, "1"));
  EXPECT_TRUE(S_ISREG(Look("x").st_mode));
  EXPECT_FALSE(fs::exists(root_ + "/y")) << "the link was replaced, not followed";
  EXPECT_EQ(Wanted({LinkOf("x", "y")}).links, 1U);
  EXPECT_TRUE(S_ISLNK(Look("x").st_mode));
}

TEST_F(DirectoryReceiverTest, LinkOnTheWayIsNeverFollowed) {
  fs::create_directories(temp_ / "outside");
  fs::create_directories(root_);
  fs::create_directory_symlink(temp_ / "outside", root_ + "/a");
  EXPECT_EQ(Problem({DirectoryOf("a"), FileEntry("a/b", 1)}).error, ENOTDIR);
  receiver_.emplace(temp_.path());
  const wire::DirectoryProblem problem = Problem({FileEntry("a/b", 1)});
  EXPECT_TRUE(problem.error == ENOTDIR || problem.error == ELOOP) << problem.error;
  EXPECT_EQ(problem.path, root_ + "/a");
  EXPECT_TRUE(fs::is_empty(temp_ / "outside"));
}

TEST_F(DirectoryReceiverTest, PathsThatLeaveTheTargetAreRefused) {
  for (const char* path : {"../x", "/etc/x", "a/../../x", "", "a//b", "./x"}) {
    receiver_.emplace(temp_.path());
    EXPECT_EQ(Problem({FileEntry(path, 1)}).error, EINVAL) << path;
  }
  EXPECT_FALSE(fs::exists(temp_ / "x"));
}

TEST_F(DirectoryReceiverTest, DirectoryAndFileDoNotTakeEachOthersPlace) {
  fs::create_directories(root_ + "/d");
  ASSERT_TRUE(WriteFileAtomically(root_ + "/f", "x").ok());
  EXPECT_EQ(Problem({FileEntry("d", 1)}).error, EISDIR);
  receiver_.emplace(temp_.path());
  EXPECT_EQ(Problem({LinkOf("d", "x")}).error, EISDIR);
  receiver_.emplace(temp_.path());
  EXPECT_EQ(Problem({DirectoryOf("f")}).error, ENOTDIR);
  EXPECT_EQ(Read("f"), "x");
}

TEST_F(DirectoryReceiverTest, TargetThatIsAFileIsNamed) {
  ASSERT_TRUE(WriteFileAtomically(root_, "x").ok());
  const wire::DirectoryProblem problem = Problem({});
  EXPECT_EQ(problem.error, ENOTDIR);
  EXPECT_EQ(problem.path, root_);
}

TEST_F(DirectoryReceiverTest, TargetIsMadeWithItsParentsAlsoForNothing) {
  EXPECT_EQ(Wanted({}, "x/y/z").root, temp_ / "x/y/z");
  EXPECT_TRUE(fs::is_directory(temp_ / "x/y/z"));
  receiver_.emplace("/nonexistent");
  EXPECT_EQ(Wanted({}, temp_ / "abs").root, temp_ / "abs");
}

class SharedTargetTest : public DirectoryReceiverTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    ASSERT_EQ(::chmod(temp_.path().c_str(), 0755), 0);
    fs::create_directories(root_ + "/pkg");
  }
  // Nothing was put into the target.
  void ExpectRefused(const std::vector<DirectoryEntry>& entries, const std::string& step,
                     const std::string& path) {
    EXPECT_EQ(Problem(entries), (wire::DirectoryProblem{0, step, path}));
    EXPECT_FALSE(fs::exists(root_ + "/pkg/new"));
  }
  const std::vector<DirectoryEntry> entries_{DirectoryOf("pkg"), LinkOf("pkg/new", "x")};
};

TEST_F(SharedTargetTest, TargetThatAnotherUserOwnsIsRefused) {
  GiveAway(root_);
  ExpectRefused(entries_, "another user owns", root_);
}

TEST_F(SharedTargetTest, TargetThatOthersMayWriteToIsRefused) {
  for (const mode_t mode : {0777, 01777}) {
    receiver_.emplace(temp_.path());
    ASSERT_EQ(::chmod(root_.c_str(), mode), 0);
    ExpectRefused(entries_, "other users may write to", root_);
  }
}

TEST_F(SharedTargetTest, OneFileMayGoIntoAStickyDirectoryAndADirectoryMayNot) {
  ASSERT_EQ(::chmod(root_.c_str(), 01777), 0);
  EXPECT_EQ(Wanted({FileEntry("f", 2)}).ranges.size(), 1U);
  Send(Chunk(0, "ab"));
  EXPECT_EQ(Look("f").st_uid, ::geteuid());
  receiver_.emplace(temp_.path());
  ExpectRefused({DirectoryOf("pkg")}, "other users may write to", root_);
  receiver_.emplace(temp_.path());
  ASSERT_EQ(::chmod(root_.c_str(), 0777), 0);
  ExpectRefused({FileEntry("f", 2)}, "other users may write to", root_);
}

TEST_F(SharedTargetTest, TargetWhoseParentsOthersMayExchangeIsRefused) {
  const std::string parent = temp_ / "open";
  fs::create_directories(parent);
  ASSERT_EQ(::chmod(parent.c_str(), 0777), 0);
  EXPECT_EQ(Problem({}, "open/below"),
            (wire::DirectoryProblem{0, "other users may write to", parent}));
  EXPECT_FALSE(fs::exists(parent + "/below"));
}

TEST_F(SharedTargetTest, DirectoryInTheTargetThatOthersCanFillIsRefused) {
  GiveAway(root_ + "/pkg");
  ExpectRefused(entries_, "another user owns", root_ + "/pkg");
  receiver_.emplace(temp_.path());
  ExpectRefused({LinkOf("pkg/new", "x")}, "another user owns", root_ + "/pkg");
  receiver_.emplace(temp_.path());
  ASSERT_EQ(::chown((root_ + "/pkg").c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod((root_ + "/pkg").c_str(), 0777), 0);
  ExpectRefused(entries_, "other users may write to", root_ + "/pkg");
}

TEST_F(SharedTargetTest, LinkOfAnotherUserOnTheWayToTheTargetIsRefused) {
  const std::string shared = temp_ / "shared";
  fs::create_directories(shared);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  ASSERT_EQ(::symlink(root_.c_str(), (shared + "/link").c_str()), 0);
  GiveAway(shared + "/link");
  EXPECT_EQ(Problem({}, "shared/link"),
            (wire::DirectoryProblem{0, "another user owns the link", shared + "/link"}));
}

TEST_F(SharedTargetTest, FileOfAnotherUserIsReplacedThoughItLooksTheSame) {
  Wanted({FileEntry("f", 2)});
  Send(Chunk(0, "ab"));
  GiveAway(root_ + "/f");
  EXPECT_EQ(Wanted({FileEntry("f", 2)}).ranges.size(), 1U);
  Send(Chunk(0, "ab"));
  EXPECT_EQ(Look("f").st_uid, ::geteuid());
}

TEST_F(SharedTargetTest, ThoseWhoCanChangeTheSourceMayOwnAndWriteToTheTarget) {
  for (const char* part : {"", "/pkg"}) {
    ASSERT_EQ(::chown((root_ + part).c_str(), kOtherUser, kOtherUser), 0);
    ASSERT_EQ(::chmod((root_ + part).c_str(), 02775), 0);
  }
  ExpectRefused(entries_, "another user owns", root_);
  receiver_.emplace(temp_.path());
  trustees_ = {{kOtherUser}, {}, false};
  ExpectRefused(entries_, "other users may write to", root_);
  receiver_.emplace(temp_.path());
  trustees_ = TrusteesOf(root_);
  EXPECT_EQ(Wanted({DirectoryOf("pkg", 0775), FileEntry("pkg/f", 2, 0664)}).ranges.size(), 1U);
  Send(Chunk(1, "ab", true, 0664));
  GiveAway(root_ + "/pkg/f");
  ASSERT_EQ(::chmod((root_ + "/pkg/f").c_str(), 0664), 0);
  EXPECT_TRUE(Wanted({DirectoryOf("pkg", 0775), FileEntry("pkg/f", 2, 0664)}).ranges.empty());
  EXPECT_EQ(Look("pkg/f").st_mode & 0777, 0664U) << "the source itself, on a shared file system";
  EXPECT_EQ(Look("pkg").st_mode & 07777, 02775U);
}

TEST_F(SharedTargetTest, BelowADirectoryThatOnlyWeCanEnterModesAreAsInTheSource) {
  const std::vector<DirectoryEntry> entries{DirectoryOf("pkg", 0775), FileEntry("pkg/f", 2, 0664)};
  Wanted(entries);
  Send(Chunk(1, "ab", true, 0664));
  for (const char* part : {"", "/pkg", "/pkg/f"}) {
    const std::string path = root_ + part;
    ASSERT_EQ(::chown(path.c_str(), 0, kOtherUser), 0);  // of a directory service
    ASSERT_EQ(::chmod(path.c_str(), *part == '\0' || part[4] == '\0' ? 0775 : 0664), 0);
  }
  receiver_.emplace(temp_.path());
  ExpectRefused(entries_, "other users may write to", root_);
  ASSERT_EQ(::chmod(temp_.path().c_str(), 0700), 0);
  receiver_.emplace(temp_.path());
  EXPECT_TRUE(Wanted(entries).ranges.empty());
  EXPECT_EQ(Look("pkg").st_mode & 0777, 0775U);
  EXPECT_EQ(Look("pkg/f").st_mode & 0777, 0664U);
  GiveAway(root_ + "/pkg");
  receiver_.emplace(temp_.path());
  ExpectRefused(entries_, "another user owns", root_ + "/pkg");
}

TEST_F(SharedTargetTest, ATargetThatOnlyWeCanEnterMayHoldDirectoriesOfAGroup) {
  ASSERT_EQ(::chown((root_ + "/pkg").c_str(), 0, kOtherUser), 0);
  ASSERT_EQ(::chmod((root_ + "/pkg").c_str(), 0775), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0700), 0);
  fs::create_directories(root_ + "/pkg/open");
  ASSERT_EQ(::chmod((root_ + "/pkg/open").c_str(), 0777), 0);
  EXPECT_EQ(
      Wanted({DirectoryOf("pkg"), DirectoryOf("pkg/open"), LinkOf("pkg/open/new", "x")}).links, 1U);
}

TEST_F(DirectoryReceiverTest, OthersMayNotWriteToTheCopyWhateverTheSourcesMode) {
  ASSERT_EQ(::chmod(temp_.path().c_str(), 0755), 0);
  Wanted({DirectoryOf("d", 0777), FileEntry("d/f", 1, 0666)});
  Send(Chunk(1, "x", true, 0666));
  EXPECT_EQ(Look("d").st_mode & 0777, 0755U);
  EXPECT_EQ(Look("d/f").st_mode & 0777, 0644U);
  EXPECT_TRUE(Wanted({DirectoryOf("d", 0777), FileEntry("d/f", 1, 0666)}).ranges.empty());
  ASSERT_EQ(::chmod((root_ + "/d/f").c_str(), 0666), 0);
  EXPECT_TRUE(Wanted({DirectoryOf("d", 0777), FileEntry("d/f", 1, 0666)}).ranges.empty());
  EXPECT_EQ(Look("d/f").st_mode & 0777, 0644U);
}

TEST_F(DirectoryReceiverTest, WithoutAHomeOnlyAbsoluteTargetsGo) {
  receiver_.emplace("");
  EXPECT_EQ(Problem({}, "x").error, ENOENT);
  receiver_.emplace("");
  EXPECT_EQ(Wanted({}, root_).root, root_);
}

TEST_F(DirectoryReceiverTest, DirectoryThatForbidsWritingIsFilledFirst) {
  DirectoryEntry mode = DirectoryOf("a", 0555);
  mode.kind = DirectoryEntryKind::kDirectoryMode;
  Wanted({DirectoryOf("a", 0555), FileEntry("a/b", 1)});
  EXPECT_EQ(Look("a").st_mode & 0777, 0755U);
  Send(Chunk(1, "x"));
  Wanted({mode});
  EXPECT_EQ(Look("a").st_mode & 0777, 0555U);
  ::chmod((root_ + "/a").c_str(), 0755);
}

TEST_F(DirectoryReceiverTest, RestartBeginsTheFileAnew) {
  Wanted({FileEntry("f", 4)});
  Send(Chunk(0, "ab", false));
  wire::File restart;
  restart.is_restart = true;
  Send(restart);
  EXPECT_TRUE(Names().empty());
  Send(Chunk(0, "xyz"));
  EXPECT_EQ(Read("f"), "xyz");
}

TEST_F(DirectoryReceiverTest, NothingUnfinishedIsLeftBehind) {
  Wanted({FileEntry("f", 4)});
  Send(Chunk(0, "ab", false));
  EXPECT_EQ(Names().size(), 1U);
  receiver_.reset();
  EXPECT_TRUE(Names().empty());
}

TEST_F(DirectoryReceiverTest, FileOutOfTurnIsAViolation) {
  Wanted({FileEntry("f", 1), FileEntry("g", 1)});
  EXPECT_EQ(receiver_->OnFile(Chunk(1, "x")).status().code(), ErrorCode::kProtocolError);
  EXPECT_EQ(receiver_->OnList({0, "target", {}, {}}).status().code(), ErrorCode::kProtocolError)
      << "the next list comes when the files of this one are there";
  Send(Chunk(0, "x"));
  Send(Chunk(1, "y"));
  EXPECT_EQ(receiver_->OnFile(Chunk(1, "x")).status().code(), ErrorCode::kProtocolError);
}

TEST_F(DirectoryReceiverTest, BytesAreToldEarlyEnoughForTheWindow) {
  Wanted({FileEntry("f", 200'000)});
  uint64_t told = 0;
  for (int i = 0; i < 20; ++i) {
    const std::optional<wire::Body> answer = Send(Chunk(0, std::string(10'000, 'x'), i == 19));
    if (answer) told += std::get<wire::FileTaken>(*answer).bytes;
    EXPECT_GE(told + 40'000, uint64_t{10'000} * (i + 1));
  }
  EXPECT_EQ(told, 200'000U);
}

TEST_F(DirectoryReceiverTest, ManySmallFilesAreToldEarlyEnoughForTheWindow) {
  std::vector<DirectoryEntry> entries;
  for (int i = 0; i < 1000; ++i) entries.push_back(FileEntry(std::to_string(i), 0));
  Wanted(entries);
  uint32_t told = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    if (const auto answer = Send(Chunk(i, ""))) told += std::get<wire::FileTaken>(*answer).files;
    EXPECT_LT(i + 1 - told, wire::kDirectoryWindowFiles);
  }
  EXPECT_EQ(told, 1000U);
}

// A limit of the file size fails a write in the middle, as a full disk does.
TEST_F(DirectoryReceiverTest, WriteThatFailsIsNamedAndLeavesNothing) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  Wanted({FileEntry("a", 1), FileEntry("f", 200'000)});
  Send(Chunk(0, "x"));
  const rlimit tight{100'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  Send(Chunk(1, std::string(65'536, 'x'), false));
  const std::optional<wire::Body> answer = Send(Chunk(1, std::string(65'536, 'x'), false));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_TRUE(answer.has_value());
  const auto* problem = std::get_if<wire::DirectoryProblem>(&*answer);
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(*problem, (wire::DirectoryProblem{EFBIG, "write", root_ + "/f"}));
  EXPECT_EQ(Names(), (std::vector<std::string>{"a"}));
  EXPECT_FALSE(Send(Chunk(1, "still on its way", false)).has_value()) << "told once";
}

TEST_F(DirectoryReceiverTest, AFileOrIntoGoesIntoTheDirectoryOfItsPathIfThereIsOne) {
  DirectoryEntry entry = FileEntry("lib", 1);
  entry.kind = DirectoryEntryKind::kFileOrInto;
  entry.link = "a.py";
  ASSERT_EQ(Wanted({DirectoryOf("lib")}).ranges.size(), 0U);
  ASSERT_EQ(Wanted({entry}).ranges.size(), 1U);
  ASSERT_TRUE(receiver_->OnFile(Chunk(0, "x")).ok());
  EXPECT_EQ(ReadFile(root_ + "/lib/a.py", 10).value(), "x");
  EXPECT_EQ(Wanted({entry}).ranges.size(), 0U) << "it is there already";
  entry.path = "new";
  ASSERT_EQ(Wanted({entry}).ranges.size(), 1U);
  ASSERT_TRUE(receiver_->OnFile(Chunk(0, "y")).ok());
  EXPECT_EQ(ReadFile(root_ + "/new", 10).value(), "y");
}

}  // namespace
}  // namespace hvdray
