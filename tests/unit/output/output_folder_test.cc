#include "launcher/report/output_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/fakes/file_size_limit.h"
#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

using wire::StreamId;

std::string Read(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? text.value() : text.status().message();
}

TEST(RankFolderNameTest, WidthIsThatOfTheLastRank) {
  EXPECT_EQ(RankWidth(1), 1);
  EXPECT_EQ(RankWidth(2), 1);
  EXPECT_EQ(RankWidth(10), 1);
  EXPECT_EQ(RankWidth(11), 2);
  EXPECT_EQ(RankWidth(100), 2);
  EXPECT_EQ(RankWidth(101), 3);
  EXPECT_EQ(RankWidth(1000), 3);
  EXPECT_EQ(RankFolderName(7, 20), "rank.07");
  EXPECT_EQ(RankFolderName(0, 1), "rank.0");
  EXPECT_EQ(RankFolderName(123, 10), "rank.123");  // Elastic: wider.
}

TEST(OutputFolderTest, EmptyFilesOfAllRanksAreThereBeforeAnyOutput) {
  const TempFolder temp;
  const auto folder = OutputFolder::Create(temp / "a/b", 11);
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(Read(temp / "a/b/rank.00/stdout"), "");
  EXPECT_EQ(Read(temp / "a/b/rank.10/stderr"), "");
  EXPECT_FALSE(std::filesystem::exists(temp / "a/b/rank.11"));
}

TEST(OutputFolderTest, OldFilesAreEmptied) {
  const TempFolder temp;
  ASSERT_TRUE(MakeDirs(temp / "rank.0").ok());
  ASSERT_TRUE(WriteFileAtomically(temp / "rank.0/stdout", "of yesterday").ok());
  ASSERT_TRUE(OutputFolder::Create(temp.path(), 1).ok());
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "");
}

TEST(OutputFolderTest, StreamsAreKeptApartAndAppended) {
  const TempFolder temp;
  auto folder = OutputFolder::Create(temp.path(), 1).value();
  EXPECT_TRUE(folder->Append(0, StreamId::kStdout, "a\n").ok());
  EXPECT_TRUE(folder->Append(0, StreamId::kStderr, "e\n").ok());
  EXPECT_TRUE(folder->Append(0, StreamId::kStdout, "b\n").ok());
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "a\nb\n");
  EXPECT_EQ(Read(temp / "rank.0/stderr"), "e\n");
}

TEST(OutputFolderTest, ARankThatStartsAgainHasAnEmptyFileAndItsEarlierAttemptsAreKept) {
  const TempFolder temp;
  auto folder = OutputFolder::Create(temp.path(), 1).value();
  EXPECT_TRUE(folder->BeginAttempt(0, StreamId::kStdout).ok());
  ASSERT_TRUE(folder->Append(0, StreamId::kStdout, "first try\n").ok());
  EXPECT_TRUE(folder->BeginAttempt(0, StreamId::kStdout).ok());
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "");
  EXPECT_TRUE(folder->BeginAttempt(0, StreamId::kStdout).ok());
  ASSERT_TRUE(folder->Append(0, StreamId::kStdout, "third\n").ok());
  EXPECT_EQ(Read(temp / "attempt.1/rank.0/stdout"), "first try\n");
  EXPECT_EQ(Read(temp / "attempt.2/rank.0/stdout"), "");
  EXPECT_EQ(Read(temp / "rank.0/stdout"), "third\n");
  EXPECT_TRUE(folder->BeginAttempt(5, StreamId::kStderr).ok());  // A rank beyond np.
  EXPECT_EQ(Read(temp / "rank.5/stderr"), "");
}

TEST(OutputFolderTest, AnAttemptWhoseFileIsGoneOrCannotBeMovedIsNoLossOfTheNext) {
  const TempFolder temp;
  auto folder = OutputFolder::Create(temp.path(), 2).value();
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(folder->BeginAttempt(rank, StreamId::kStdout).ok());
    ASSERT_TRUE(folder->Append(rank, StreamId::kStdout, "old\n").ok());
  }
  std::filesystem::remove(temp / "rank.0/stdout");
  EXPECT_TRUE(folder->BeginAttempt(0, StreamId::kStdout).ok());
  std::filesystem::remove_all(temp / "attempt.1");
  ASSERT_TRUE(WriteFileAtomically(temp / "attempt.1", "in the way").ok());
  EXPECT_EQ(folder->BeginAttempt(1, StreamId::kStdout).code(), ErrorCode::kOutputLost);
  EXPECT_EQ(Read(temp / "rank.1/stdout"), "old\n");  // not destroyed
  EXPECT_EQ(folder->damaged(), std::vector<std::string>{temp / "rank.1/stdout"});
}

TEST(OutputFolderTest, FoldersOfAnotherRunAreFound) {
  const TempFolder temp;
  for (const char* name : {"rank.0", "rank.1", "rank.2", "rank.00", "attempt.1", "results"}) {
    ASSERT_TRUE(MakeDirs(temp / name).ok());
  }
  EXPECT_EQ(OutputFolder::Create(temp.path(), 2).value()->strangers(),
            (std::vector<std::string>{"attempt.1", "rank.00", "rank.2"}));
}

TEST(OutputFolderTest, APlaceThatCannotBeWrittenIsRefusedByName) {
  const TempFolder temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "file", "x").ok());
  const auto under_a_file = OutputFolder::Create(temp / "file/out", 1);
  ASSERT_FALSE(under_a_file.ok());
  EXPECT_EQ(under_a_file.status().code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(under_a_file.status().message().find("file"), std::string::npos);

  ASSERT_TRUE(MakeDirs(temp / "rank.0/stdout").ok());  // A directory in the file's place.
  const auto over_a_folder = OutputFolder::Create(temp.path(), 1);
  ASSERT_FALSE(over_a_folder.ok());
  EXPECT_EQ(over_a_folder.status().code(), ErrorCode::kFileUnwritable);
  EXPECT_NE(over_a_folder.status().message().find("rank.0/stdout"), std::string::npos);
}

TEST(OutputFolderTest, APipeInTheWayIsRefusedAtOnce) {
  const TempFolder temp;
  ASSERT_TRUE(MakeDirs(temp / "rank.0").ok());
  ASSERT_EQ(::mkfifo((temp / "rank.0/stdout").c_str(), 0600), 0);
  const auto folder = OutputFolder::Create(temp.path(), 1);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.status().code(), ErrorCode::kFileUnwritable);
}

TEST(OutputFolderTest, ALinkInThePlaceOfAFileIsRefused) {
  const TempFolder temp;
  ASSERT_TRUE(MakeDirs(temp / "rank.0").ok());
  ASSERT_TRUE(WriteFileAtomically(temp / "other", "kept").ok());
  ASSERT_EQ(::symlink((temp / "other").c_str(), (temp / "rank.0/stdout").c_str()), 0);
  EXPECT_EQ(OutputFolder::Create(temp.path(), 1).status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(Read(temp / "other"), "kept");
}

TEST(OutputFolderTest, AFullDiskIsSaidOnceForAFileAndSparesTheOthers) {
  const TempFolder temp;
  auto folder = OutputFolder::Create(temp.path(), 2).value();
  const FileSizeLimit full(8);
  const Status first = folder->Append(0, StreamId::kStdout, "the end is lost\n");
  EXPECT_EQ(first.code(), ErrorCode::kOutputLost);
  EXPECT_NE(first.message().find("rank.0/stdout: write: File too large"), std::string::npos)
      << first.message();
  EXPECT_FALSE(first.hint().empty());
  EXPECT_TRUE(folder->Append(0, StreamId::kStdout, "lost too\n").ok());
  EXPECT_TRUE(folder->Append(1, StreamId::kStdout, "kept\n").ok());
  EXPECT_EQ(Read(temp / "rank.1/stdout"), "kept\n");
  EXPECT_EQ(folder->damaged(), (std::vector<std::string>{temp / "rank.0/stdout"}));
}

TEST(OutputFolderTest, MoreRanksThanDescriptorsAreNoTrouble) {
  const TempFolder temp;
  auto folder = OutputFolder::Create(temp.path(), 400).value();
  size_t open_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open_files += entry.exists() ? 1 : 0;
  }
  EXPECT_LT(open_files, 400u);
  for (int turn = 0; turn < 2; ++turn) {
    for (int rank = 0; rank < 400; ++rank) {
      ASSERT_TRUE(folder->Append(rank, StreamId::kStdout, fmt::format("{}.{}\n", rank, turn)).ok());
    }
  }
  EXPECT_EQ(Read(temp / "rank.007/stdout"), "7.0\n7.1\n");
  EXPECT_EQ(Read(temp / "rank.399/stdout"), "399.0\n399.1\n");
}

}  // namespace
}  // namespace hvdray
