// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/output_directory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/file_size_limit.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using wire::StreamId;

std::string Read(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? text.value() : text.status().message();
}

TEST(RankDirectoryNameTest, WidthIsThatOfTheLastRank) {
  EXPECT_EQ(RankWidth(1), 1);
  EXPECT_EQ(RankWidth(2), 1);
  EXPECT_EQ(RankWidth(10), 1);
  EXPECT_EQ(RankWidth(11), 2);
  EXPECT_EQ(RankWidth(100), 2);
  EXPECT_EQ(RankWidth(101), 3);
  EXPECT_EQ(RankWidth(1000), 3);
  EXPECT_EQ(RankDirectoryName(7, 20), "rank.07");
  EXPECT_EQ(RankDirectoryName(0, 1), "rank.0");
  EXPECT_EQ(RankDirectoryName(123, 10), "rank.123");  // Elastic: wider.
}

TEST(OutputDirectoryTest, EmptyFilesOfAllRanksAreThereBeforeAnyOutput) {
  const TempDirectory temp;
  const auto directory = OutputDirectory::Create(temp / "a/b", 11);
  ASSERT_TRUE(directory.ok()) << directory.status().ToString();
  EXPECT_EQ(Read(temp / "a/b/rank.00/stdout"), "");
  EXPECT_EQ(Read(temp / "a/b/rank.10/stderr"), "");
  EXPECT_FALSE(std::filesystem::exists(temp / "a/b/rank.11"));
}

TEST(OutputDirectoryTest, OldFilesAreEmptied) {
  const TempDirectory temp;
  ASSERT_TRUE(MakeDirs(temp / "rank.0").ok());
  ASSERT_TRUE(WriteFileAtomically(temp / "rank.0/stdout", "of yesterday").ok());
  ASSERT_TRUE(OutputDirectory::Create(temp.path(), 1).ok());
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "");
}

TEST(OutputDirectoryTest, StreamsAreKeptApartAndAppended) {
  const TempDirectory temp;
  auto directory = OutputDirectory::Create(temp.path(), 1).value();
  EXPECT_TRUE(directory->Append(0, StreamId::kStdout, "a\n").ok());
  EXPECT_TRUE(directory->Append(0, StreamId::kStderr, "e\n").ok());
  EXPECT_TRUE(directory->Append(0, StreamId::kStdout, "b\n").ok());
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "a\nb\n");
  EXPECT_EQ(Read(temp / "rank.0/stderr"), "e\n");
}

TEST(OutputDirectoryTest, ARankThatStartsAgainHasAnEmptyFileAndItsEarlierAttemptsAreKept) {
  const TempDirectory temp;
  auto directory = OutputDirectory::Create(temp.path(), 1).value();
  EXPECT_TRUE(directory->BeginAttempt(0, StreamId::kStdout).ok());
  ASSERT_TRUE(directory->Append(0, StreamId::kStdout, "first try\n").ok());
  EXPECT_TRUE(directory->BeginAttempt(0, StreamId::kStdout).ok());
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "");
  EXPECT_TRUE(directory->BeginAttempt(0, StreamId::kStdout).ok());
  ASSERT_TRUE(directory->Append(0, StreamId::kStdout, "third\n").ok());
  EXPECT_EQ(Read(temp / "attempt.1/rank.0/stdout"), "first try\n");
  EXPECT_EQ(Read(temp / "attempt.2/rank.0/stdout"), "");
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "third\n");
  EXPECT_TRUE(directory->BeginAttempt(5, StreamId::kStderr).ok());  // A rank beyond np.
  EXPECT_EQ(Read(temp / "rank.5/stderr"), "");
}

TEST(OutputDirectoryTest, AnAttemptWhoseFileIsGoneOrCannotBeMovedIsNoLossOfTheNext) {
  const TempDirectory temp;
  auto directory = OutputDirectory::Create(temp.path(), 2).value();
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(directory->BeginAttempt(rank, StreamId::kStdout).ok());
    ASSERT_TRUE(directory->Append(rank, StreamId::kStdout, "old\n").ok());
  }
  std::filesystem::remove(temp / "rank.0/stdout");
  EXPECT_TRUE(directory->BeginAttempt(0, StreamId::kStdout).ok());
  std::filesystem::remove_all(temp / "attempt.1");
  ASSERT_TRUE(WriteFileAtomically(temp / "attempt.1", "in the way").ok());
  EXPECT_EQ(directory->BeginAttempt(1, StreamId::kStdout).code(), ErrorCode::kOutputLost);
  EXPECT_EQ(Read(temp / "rank.1/stdout"), "old\n");  // not destroyed
  EXPECT_EQ(directory->damaged(), std::vector<std::string>{temp / "rank.1/stdout"});
}

TEST(OutputDirectoryTest, DirectoriesOfAnotherRunAreFound) {
  const TempDirectory temp;
  for (const char* name : {"rank.0", "rank.1", "rank.2", "rank.00", "attempt.1", "results"}) {
    ASSERT_TRUE(MakeDirs(temp / name).ok());
  }
  EXPECT_EQ(OutputDirectory::Create(temp.path(), 2).value()->foreign_directories(),
            (std::vector<std::string>{"attempt.1", "rank.00", "rank.2"}));
}

TEST(OutputDirectoryTest, AttemptsOfAnotherRunStayAsTheyAre) {
  const TempDirectory temp;
  for (const char* run : {"first", "second"}) {
    auto directory = OutputDirectory::Create(temp.path(), 1).value();
    for (const char* attempt : {" 1", " 2"}) {
      ASSERT_TRUE(directory->BeginAttempt(0, StreamId::kStdout).ok());
      ASSERT_TRUE(directory->Append(0, StreamId::kStdout, std::string(run) + attempt).ok());
    }
  }
  EXPECT_EQ(Read(temp / "attempt.1/rank.0/stdout"), "first 1");
  EXPECT_EQ(Read(temp / "attempt.2/rank.0/stdout"), "second 1");
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "second 2");
}

TEST(OutputDirectoryTest, APlaceThatCannotBeWrittenIsRefusedByName) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "file", "x").ok());
  const auto under_a_file = OutputDirectory::Create(temp / "file/out", 1);
  ASSERT_FALSE(under_a_file.ok());
  EXPECT_EQ(under_a_file.status().code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(under_a_file.status().message().find("file"), std::string::npos);

  ASSERT_TRUE(MakeDirs(temp / "rank.0/stdout").ok());  // A directory in the file's place.
  const auto over_a_directory = OutputDirectory::Create(temp.path(), 1);
  ASSERT_FALSE(over_a_directory.ok());
  EXPECT_EQ(over_a_directory.status().code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(over_a_directory.status().message().find("rank.0/stdout"), std::string::npos);
}

TEST(OutputDirectoryTest, APipeInTheWayIsRefusedAtOnce) {
  const TempDirectory temp;
  ASSERT_TRUE(MakeDirs(temp / "rank.0").ok());
  ASSERT_EQ(::mkfifo((temp / "rank.0/stdout").c_str(), 0600), 0);
  const auto directory = OutputDirectory::Create(temp.path(), 1);
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.status().code(), ErrorCode::kFileUnwritable);
}

TEST(OutputDirectoryTest, ALinkInThePlaceOfAFileIsRefused) {
  const TempDirectory temp;
  ASSERT_TRUE(MakeDirs(temp / "rank.0").ok());
  ASSERT_TRUE(WriteFileAtomically(temp / "other", "kept").ok());
  ASSERT_EQ(::symlink((temp / "other").c_str(), (temp / "rank.0/stdout").c_str()), 0);
  EXPECT_EQ(OutputDirectory::Create(temp.path(), 1).status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(Read(temp / "other"), "kept");
}

// In another user's directory, as he can put it there at any time.
class ForeignOutputDirectory : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    for (const std::string& path : {temp_ / "precious", out_}) ASSERT_TRUE(MakeDirs(path).ok());
    ASSERT_TRUE(WriteFileAtomically(temp_ / "precious/stdout", "kept").ok());
    GiveAway(out_);
  }
  void PlantLink(const std::string& name) const {
    ASSERT_EQ(::symlink((temp_ / "precious").c_str(), (out_ + "/" + name).c_str()), 0);
    GiveAway(out_ + "/" + name);
  }

  TempDirectory temp_;
  const std::string out_ = temp_ / "out";
};

TEST_F(ForeignOutputDirectory, ALinkInThePlaceOfARanksDirectoryIsRefused) {
  PlantLink("rank.1");
  const Status status = OutputDirectory::Create(out_, 2).status();
  EXPECT_EQ(status.code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(status.message().find("rank.1"), std::string::npos) << status.message();
  EXPECT_EQ(Read(temp_ / "precious/stdout"), "kept");
}

TEST_F(ForeignOutputDirectory, ALinkInThePlaceOfAnAttemptIsRefused) {
  auto directory = OutputDirectory::Create(out_, 1).value();
  PlantLink("attempt.1");
  ASSERT_TRUE(directory->BeginAttempt(0, StreamId::kStdout).ok());
  ASSERT_TRUE(directory->Append(0, StreamId::kStdout, "new").ok());
  EXPECT_EQ(directory->BeginAttempt(0, StreamId::kStdout).code(), ErrorCode::kOutputLost);
  EXPECT_FALSE(std::filesystem::exists(temp_ / "precious/rank.0"));
}

TEST_F(ForeignOutputDirectory, ASecondNameOfAnotherFileIsNotEmptied) {
  ASSERT_TRUE(MakeDirs(out_ + "/rank.0").ok());
  ASSERT_EQ(::link((temp_ / "precious/stdout").c_str(), (out_ + "/rank.0/stdout").c_str()), 0);
  GiveAway(out_ + "/rank.0");
  EXPECT_EQ(OutputDirectory::Create(out_, 1).status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(Read(temp_ / "precious/stdout"), "kept");
}

TEST(OutputDirectoryTest, AFullDiskIsSaidOnceForAFileAndSparesTheOthers) {
  const TempDirectory temp;
  auto directory = OutputDirectory::Create(temp.path(), 2).value();
  const FileSizeLimit full(8);
  const Status first = directory->Append(0, StreamId::kStdout, "the end is lost\n");
  ExpectError(first, ErrorCode::kOutputLost,
              {temp / "rank.0/stdout", "write", std::strerror(EFBIG)});
  EXPECT_FALSE(first.hint().empty());
  EXPECT_TRUE(directory->Append(0, StreamId::kStdout, "lost too\n").ok());
  EXPECT_TRUE(directory->Append(1, StreamId::kStdout, "kept\n").ok());
  EXPECT_EQ(Read(temp / "rank.1/stdout"), "kept\n");
  EXPECT_EQ(directory->damaged(), (std::vector<std::string>{temp / "rank.0/stdout"}));
}

TEST(OutputDirectoryTest, MoreRanksThanDescriptorsAreNoTrouble) {
  const TempDirectory temp;
  auto directory = OutputDirectory::Create(temp.path(), 400).value();
  size_t open_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open_files += entry.exists() ? 1 : 0;
  }
  EXPECT_LT(open_files, 400u);
  for (int turn = 0; turn < 2; ++turn) {
    for (int rank = 0; rank < 400; ++rank) {
      ASSERT_TRUE(
          directory->Append(rank, StreamId::kStdout, fmt::format("{}.{}\n", rank, turn)).ok());
    }
  }
  EXPECT_EQ(Read(temp / "rank.007/stdout"), "7.0\n7.1\n");
  EXPECT_EQ(Read(temp / "rank.399/stdout"), "399.0\n399.1\n");
}

}  // namespace
}  // namespace hvdray
