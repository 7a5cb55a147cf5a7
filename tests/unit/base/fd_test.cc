// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesOnceWhateverIsMovedWhere) {
  Pipe pipe = MakePipe().value();
  const int raw = pipe.read_end.get();
  UniqueFd moved = std::move(pipe.read_end);
  EXPECT_FALSE(pipe.read_end.is_valid());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(IsOpen(raw));
  UniqueFd& self = moved;
  moved = std::move(self);
  EXPECT_TRUE(IsOpen(raw));
  moved = UniqueFd();
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, ReleaseGivesItAway) {
  Pipe pipe = MakePipe().value();
  const int raw = pipe.read_end.Release();
  pipe.read_end.Reset();
  EXPECT_TRUE(IsOpen(raw));
  ::close(raw);
}

TEST(MakePipeTest, BothEndsCloseOnExec) {
  const Pipe pipe = MakePipe().value();
  EXPECT_EQ(::fcntl(pipe.read_end.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(pipe.write_end.get(), F_GETFD), FD_CLOEXEC);
}

TEST(MakeSocketPairTest, BothEndsCloseOnExecAndSpeak) {
  const auto [a, b] = MakeSocketPair().value();
  EXPECT_EQ(::fcntl(a.get(), F_GETFD), FD_CLOEXEC);
  ASSERT_TRUE(WriteAll(a.get(), "x").ok());
  char byte = 0;
  EXPECT_EQ(::read(b.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(SetNonBlockingTest, ReadReturnsAtOnceAndBadDescriptorIsAnError) {
  const Pipe pipe = MakePipe().value();
  ASSERT_TRUE(SetNonBlocking(pipe.read_end.get()).ok());
  char byte = 0;
  EXPECT_EQ(::read(pipe.read_end.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(SetNonBlocking(-1).ok());
}

TEST(FdTest, DescriptorsUsedUpIsOutOfResources) {
  rlimit saved{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved), 0);
  const rlimit none{0, saved.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const ErrorCode pipe_code = MakePipe().status().code();
  const ErrorCode pair_code = MakeSocketPair().status().code();
  const ErrorCode file_code = OpenForWriting("/dev/null").status().code();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &saved), 0);
  EXPECT_EQ(pipe_code, ErrorCode::kOutOfResources);
  EXPECT_EQ(pair_code, ErrorCode::kOutOfResources);
  EXPECT_EQ(file_code, ErrorCode::kOutOfResources);
}

TEST(ReadFileTest, ReadsBytesAndRefusesWhatIsTooLargeOrNoFile) {
  const TempDirectory directory;
  const std::string path = directory / "f";
  const std::string bytes("a\0\xff\n", 4);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  EXPECT_EQ(ReadFile(path).value(), bytes);
  EXPECT_EQ(ReadFile(path, 4).value(), bytes);
  EXPECT_EQ(ReadFile(path, 3).status().code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(ReadFile(directory / "absent").status().code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(ReadFile(directory.path()).status().code(), ErrorCode::kFileUnreadable);
  EXPECT_NE(ReadFile(directory / "absent").status().message().find("absent"), std::string::npos);
}

TEST(WriteAllTest, WritesMoreThanAPipeHolds) {
  Pipe pipe = MakePipe().value();
  const std::string big(300'000, 'x');
  std::string got;
  // A child reads, so that no second thread is needed.
  const pid_t child = ::fork();
  if (child == 0) ::_exit(WriteAll(pipe.write_end.get(), big).ok() ? 0 : 1);
  pipe.write_end.Reset();
  char buffer[4096];
  for (ssize_t n; (n = ::read(pipe.read_end.get(), buffer, sizeof buffer)) > 0;) {
    got.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(got, big);
  EXPECT_FALSE(WriteAll(-1, "x").ok());
}

TEST(WriteFileAtomicallyTest, ReplacesWholeAndLeavesNothingBeside) {
  const TempDirectory directory;
  const std::string path = directory / "report.json";
  ASSERT_TRUE(WriteFileAtomically(path, "old and long").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  EXPECT_EQ(ReadFile(path).value(), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(WriteFileAtomicallyTest, KeepsTheModeOfTheFileThatItReplaces) {
  const TempDirectory directory;
  const std::string path = directory / "report.json";
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

TEST(WriteFileAtomicallyTest, ANewFileHasItsModeFromTheFirstByte) {
  const TempDirectory directory;
  ASSERT_TRUE(WriteFileAtomically(directory / "secret", "x", 0600).ok());
  struct stat info {};
  ASSERT_EQ(::stat((directory / "secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(WriteFileAtomicallyTest, FailureKeepsTheOldFileAndLeavesNothingBeside) {
  const TempDirectory directory;
  const std::string path = directory / "report.json";
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  rlimit saved{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &saved), 0);
  struct sigaction old_action {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &ignore, &old_action);
  const rlimit small{10, saved.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = WriteFileAtomically(path, "far more than ten bytes");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &saved), 0);
  ::sigaction(SIGXFSZ, &old_action, nullptr);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), std::string::npos);
  EXPECT_EQ(ReadFile(path).value(), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(WriteFileAtomicallyTest, DeviceIsWrittenInPlace) {
  EXPECT_TRUE(WriteFileAtomically("/dev/null", "x").ok());
  struct stat info {};
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_EQ(WriteFileAtomically("/dev/full", "x").code(), ErrorCode::kOutOfResources);
}

TEST(WriteFileAtomicallyTest, ALinkStaysAndItsTargetIsReplaced) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "real", "old").ok());
  ASSERT_EQ(::symlink("real", (temp / "link").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(temp / "link", "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(temp / "link"));
  EXPECT_EQ(ReadFile(temp / "real").value(), "new");
}

TEST(WriteFileAtomicallyTest, ALinkInThePlaceOfTheTemporaryFileIsNotFollowed) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "precious", "kept").ok());
  const std::string trap = temp / ("report.tmp" + std::to_string(::getpid()));
  ASSERT_EQ(::symlink((temp / "precious").c_str(), trap.c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(temp / "report", "new").ok());
  EXPECT_EQ(ReadFile(temp / "precious").value(), "kept");
  EXPECT_EQ(ReadFile(temp / "report").value(), "new");
}

TEST(WriteFileAtomicallyTest, ANamedDescriptorIsContinuedNotReplaced) {
  const TempDirectory temp;
  const UniqueFd fd = OpenForWriting(temp / "out").value();
  const std::string name = "/dev/fd/" + std::to_string(fd.get());
  ASSERT_TRUE(WriteAll(fd.get(), "before ").ok());
  ASSERT_TRUE(WriteFileAtomically(name, "report ").ok());
  ASSERT_TRUE(WriteAll(OpenForWriting(name).value().get(), "events ").ok());
  ASSERT_TRUE(WriteAll(fd.get(), "after").ok());
  EXPECT_EQ(ReadFile(temp / "out").value(), "before report events after");
}

// A directory as /tmp, in which somebody else has put a link, a file and a pipe.
class SharedDirectory : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    ASSERT_EQ(::chmod(shared_.path().c_str(), 01777), 0);
    ASSERT_TRUE(WriteFileAtomically(precious_, "kept").ok());
    ASSERT_EQ(::symlink(precious_.c_str(), (shared_ / "link").c_str()), 0);
    ASSERT_EQ(::symlink(own_.path().c_str(), (shared_ / "folder").c_str()), 0);
    ASSERT_TRUE(WriteFileAtomically(shared_ / "file", "theirs").ok());
    ASSERT_EQ(::mkfifo((shared_ / "pipe").c_str(), 0666), 0);
    for (const char* name : {"link", "folder", "file", "pipe"}) GiveAway(shared_ / name);
  }

  TempDirectory own_;
  TempDirectory shared_;
  const std::string precious_ = own_ / "precious";
};

TEST_F(SharedDirectory, AnotherUsersLinkLeadsNowhere) {
  ASSERT_EQ(::symlink((shared_ / "link").c_str(), (own_ / "indirect").c_str()), 0);
  for (const std::string& path :
       {shared_ / "link", shared_ / "folder/precious", own_ / "indirect"}) {
    const Status replaced = WriteFileAtomically(path, "new");
    EXPECT_EQ(replaced.code(), ErrorCode::kFileUnwritable) << path;
    EXPECT_NE(replaced.message().find("another user owns the link"), std::string::npos) << path;
    EXPECT_EQ(OpenForWriting(path).status().code(), ErrorCode::kFileUnwritable) << path;
  }
  EXPECT_EQ(ReadFile(precious_).value(), "kept");
}

TEST_F(SharedDirectory, AnotherUsersLinkLeadsNowhereInWhateverDirectoryHeCanWriteTo) {
  const auto is_refused = [this](const char* name) {
    return WriteFileAtomically(shared_ / name, "new").code() == ErrorCode::kFileUnwritable &&
           OpenForWriting(shared_ / name).status().code() == ErrorCode::kFileUnwritable &&
           MakeDirs(shared_ / "folder/new").code() == ErrorCode::kFileUnwritable;
  };
  ASSERT_EQ(::chmod(shared_.path().c_str(), 0777), 0);
  EXPECT_TRUE(is_refused("link"));
  EXPECT_TRUE(is_refused("folder/precious"));
  EXPECT_EQ(OpenForWriting(shared_ / "file").status().code(), ErrorCode::kFileUnwritable);
  ASSERT_EQ(::chmod(shared_.path().c_str(), 0755), 0);
  GiveAway(shared_.path());
  EXPECT_TRUE(is_refused("link"));
  EXPECT_TRUE(is_refused("folder/precious"));
  EXPECT_EQ(ReadFile(precious_).value(), "kept");
}

TEST_F(SharedDirectory, ASecondNameOfAFileInAnotherUsersDirectoryIsNotWrittenTo) {
  ASSERT_EQ(::link(precious_.c_str(), (shared_ / "second").c_str()), 0);
  GiveAway(shared_.path());
  EXPECT_EQ(OpenForWriting(shared_ / "second").status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(ReadFile(precious_).value(), "kept");
}

TEST_F(SharedDirectory, AnotherUsersFileOrPipeIsNotWrittenTo) {
  for (const std::string& path : {shared_ / "file", shared_ / "pipe"}) {
    EXPECT_EQ(OpenForWriting(path).status().code(), ErrorCode::kFileUnwritable) << path;
  }
  EXPECT_EQ(ReadFile(shared_ / "file").value(), "theirs");
  EXPECT_TRUE(WriteFileAtomically(shared_ / "file", "ours").ok()) << "a new file in its place";
  struct stat info {};
  ASSERT_EQ(::stat((shared_ / "file").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

TEST_F(SharedDirectory, OurOwnLinkIsFollowed) {
  ASSERT_EQ(::symlink(precious_.c_str(), (shared_ / "ours").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(shared_ / "ours", "new").ok());
  EXPECT_EQ(ReadFile(precious_).value(), "new");
  EXPECT_TRUE(WriteAll(OpenForWriting(shared_ / "ours").value().get(), "x").ok());
  EXPECT_EQ(ReadFile(precious_).value(), "x");
}

TEST(OpenForWritingTest, ADescriptorThatIsNotOpenIsRefused) {
  EXPECT_EQ(OpenForWriting("/dev/fd/987").status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(OpenForWriting("/dev/fd/12x").status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(OpenForWriting("/dev/fd/99999999999").status().code(), ErrorCode::kFileUnwritable);
}

TEST(WriteFileAtomicallyTest, DirectoryThatIsNotThereIsNamed) {
  const TempDirectory directory;
  const Status status = WriteFileAtomically(directory / "no/such/file", "x");
  EXPECT_EQ(status.code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(status.message().find("no/such/file"), std::string::npos);
  EXPECT_FALSE(WriteFileAtomically(directory.path(), "x").ok()) << "a directory is no file";
}

TEST(MakeDirsTest, MakesParentsAndIsContentWithWhatIsThere) {
  const TempDirectory directory;
  EXPECT_TRUE(MakeDirs(directory / "a/b//c/").ok());
  EXPECT_TRUE(std::filesystem::is_directory(directory / "a/b/c"));
  EXPECT_TRUE(MakeDirs(directory / "a/b/c").ok());
  EXPECT_TRUE(MakeDirs("/").ok());
}

TEST(IsDirectoryTest, ALinkToOneIsOne) {
  const TempDirectory temp;
  EXPECT_TRUE(IsDirectory(temp.path()));
  ASSERT_EQ(::symlink(temp.path().c_str(), (temp / "link").c_str()), 0);
  EXPECT_TRUE(IsDirectory(temp / "link"));
  ASSERT_TRUE(WriteFileAtomically(temp / "file", "").ok());
  EXPECT_FALSE(IsDirectory(temp / "file"));
  EXPECT_FALSE(IsDirectory(temp / "none"));
  EXPECT_FALSE(IsDirectory(""));
}

TEST(MakeDirsTest, FileInTheWayIsNamed) {
  const TempDirectory directory;
  ASSERT_TRUE(WriteFileAtomically(directory / "file", "").ok());
  EXPECT_EQ(MakeDirs(directory / "file").code(), ErrorCode::kFileUnwritable);
  const Status status = MakeDirs(directory / "file/below");
  EXPECT_EQ(status.code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(status.message().find("file"), std::string::npos);
  EXPECT_FALSE(MakeDirs("").ok());
}

class OpenFileLimitTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved_), 0); }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &saved_); }
  rlimit saved_{};
};

TEST_F(OpenFileLimitTest, SoftLimitRisesToWhatIsWanted) {
  const rlimit low{64, saved_.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(RaiseOpenFileLimit(128).value(), 128u);
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, 128u);
}

TEST_F(OpenFileLimitTest, HigherLimitIsLeftAlone) {
  EXPECT_EQ(RaiseOpenFileLimit(1).value(), saved_.rlim_cur);
}

TEST_F(OpenFileLimitTest, WhatTheKernelRefusesGivesWhatIsPossible) {
  // Above fs.nr_open not even root may go.
  const Result<uint64_t> limit = RaiseOpenFileLimit(uint64_t{1} << 40);
  ASSERT_TRUE(limit.ok());
  EXPECT_LE(*limit, saved_.rlim_max);
  EXPECT_GE(*limit, saved_.rlim_cur);
}

}  // namespace
}  // namespace hvdray
