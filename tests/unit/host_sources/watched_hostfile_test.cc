// SPDX-License-Identifier: Apache-2.0
// Real files. Where events are meant to do the work, polling comes once an hour.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "launcher/engine/host_source.h"
#include "launcher/job/hostfile.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/host_sources/source_log.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;
using Watching = WatchedHostfileOptions::Watching;

class WatchedHostfileTest : public testing::Test {
 protected:
  WatchedHostfileTest() : loop_(std::move(*Loop::Create())), path_(directory_ / "hosts") {
    options_.path = path_;
    options_.parse = [this](std::string_view text, std::string*) {
      ++reads_;
      return ParseHostfile(text, options_.path);
    };
    options_.poll_interval = std::chrono::hours(1);
    options_.settle = std::chrono::milliseconds(1);
  }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static void Replace(const std::string& path, const std::string& text) {
    Write(path + ".new", text);
    fs::rename(path + ".new", path);
  }
  void Start() {
    source_ = MakeWatchedHostfile(*loop_, options_);
    const Status status = source_->Start(log_.handlers());
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void StartWith(const std::string& text) {
    Write(path_, text);
    Start();
    ASSERT_TRUE(RunUntil(*loop_, [&] { return !log_.lists.empty(); }));
  }
  bool AwaitList(const std::string& list) {
    return RunUntil(*loop_, [&] { return !log_.lists.empty() && log_.lists.back() == list; });
  }
  bool AwaitFailures(size_t count) {
    return RunUntil(*loop_, [&] { return log_.failures.size() >= count; });
  }
  Status StartStatus() {
    source_ = MakeWatchedHostfile(*loop_, options_);
    return source_->Start(log_.handlers());
  }

  TempDirectory directory_;
  std::unique_ptr<Loop> loop_;
  std::string path_;
  WatchedHostfileOptions options_;
  int reads_ = 0;
  SourceLog log_;
  std::unique_ptr<HostSource> source_;
};

TEST_F(WatchedHostfileTest, FirstListIsToldAndNotFromWithinStart) {
  Write(path_, "b slots=2\na slots=1\n");
  Start();
  EXPECT_TRUE(log_.lists.empty());
  ASSERT_TRUE(AwaitList("b:2 a:1"));
  EXPECT_FALSE(log_.is_final);
}

TEST_F(WatchedHostfileTest, ReplacementByRenameIsSeenEachTime) {
  StartWith("a:1\n");
  for (const char* name : {"b", "c", "d"}) {
    Replace(path_, std::string(name) + ":2\n");
    ASSERT_TRUE(AwaitList(std::string(name) + ":2"));
  }
}

TEST_F(WatchedHostfileTest, WritingInPlaceIsSeenWhenItIsClosed) {
  StartWith("a:1\n");
  {
    std::ofstream file(path_);
    file << "a:1\nb" << std::flush;
    Settle(*loop_);
    EXPECT_EQ(log_.lists.size(), 1U);
    file << ":2\n";
  }
  ASSERT_TRUE(AwaitList("a:1 b:2"));
  EXPECT_TRUE(log_.failures.empty());
}

TEST_F(WatchedHostfileTest, LinesAppendedOneByOneAreOneChange) {
  StartWith("a:1\n");
  Write(path_, "");
  for (const char* line : {"a:1\n", "b:1\n", "c:1\n"}) std::ofstream(path_, std::ios::app) << line;
  ASSERT_TRUE(AwaitList("a:1 b:1 c:1"));
  EXPECT_EQ(log_.lists.size(), 2U);
  EXPECT_TRUE(log_.failures.empty());
}

TEST_F(WatchedHostfileTest, WriterThatNeverRestsIsReadAllTheSame) {
  options_.settle = std::chrono::milliseconds(20);
  StartWith("a:1\n");
  // Each write restarts the quiet time; without a limit nothing would ever be read.
  const Watch writer = loop_->Every(std::chrono::milliseconds(1), [&] { Replace(path_, "b:1\n"); });
  EXPECT_TRUE(AwaitList("b:1"));
}

TEST_F(WatchedHostfileTest, LinkThatIsSwitchedIsSeen) {
  // As Kubernetes mounts a ConfigMap: hosts -> ..data/hosts, and ..data is replaced by rename.
  fs::create_directory(directory_ / "v1");
  fs::create_directory(directory_ / "v2");
  Write(directory_ / "v1/hosts", "a:1\n");
  Write(directory_ / "v2/hosts", "b:1\n");
  fs::create_symlink("v1", directory_ / "..data");
  fs::create_symlink("..data/hosts", path_);
  Start();
  ASSERT_TRUE(AwaitList("a:1"));
  fs::create_symlink("v2", directory_ / "..next");
  fs::rename(directory_ / "..next", directory_ / "..data");
  ASSERT_TRUE(AwaitList("b:1"));
  Write(directory_ / "v2/hosts", "c:1\n");
  ASSERT_TRUE(AwaitList("c:1")) << "the directory behind the link is watched too";
}

TEST_F(WatchedHostfileTest, SameHostsInAnotherOrderAreNoNews) {
  StartWith("a:1\nb:1\n");
  const int reads = reads_;
  Replace(path_, "# now sorted\nb:1\na:1\n");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return reads_ > reads; }));
  Settle(*loop_);
  EXPECT_EQ(log_.lists.size(), 1U);
}

TEST_F(WatchedHostfileTest, WrongFileIsAFailureAndItsRepairIsToldEvenIfNothingChanged) {
  StartWith("a:1\n");
  Replace(path_, "a:1\nb:many\n");
  ASSERT_TRUE(AwaitFailures(1));
  EXPECT_EQ(log_.failures[0].code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(log_.failures[0].message().find("host file: " + path_ + ":2:"), 0U)
      << log_.failures[0].message();
  EXPECT_EQ(log_.lists.size(), 1U);
  Replace(path_, "a:1\n");
  EXPECT_TRUE(RunUntil(*loop_, [&] { return log_.lists.size() == 2; }));
}

TEST_F(WatchedHostfileTest, FileThatGoesIsAFailureUntilItComesBack) {
  StartWith("a:1\n");
  fs::remove(path_);
  ASSERT_TRUE(AwaitFailures(1));
  EXPECT_EQ(log_.failures[0].code(), ErrorCode::kFileUnreadable);
  Write(path_, "b:1\n");
  EXPECT_TRUE(AwaitList("b:1"));
}

TEST_F(WatchedHostfileTest, PollingAloneSeesEveryKindOfChange) {
  options_.watching = Watching::kPolling;
  options_.poll_interval = std::chrono::milliseconds(2);
  StartWith("a:1\n");
  Replace(path_, "b:1\n");
  ASSERT_TRUE(AwaitList("b:1"));
  Write(path_, "b:1\nc:1\n");
  ASSERT_TRUE(AwaitList("b:1 c:1"));
  fs::remove(path_);
  ASSERT_TRUE(AwaitFailures(1));
  Write(directory_ / "other", "d:1\n");
  fs::create_symlink("other", path_);
  EXPECT_TRUE(AwaitList("d:1"));
}

TEST_F(WatchedHostfileTest, DirectoryThatIsExchangedIsSeen) {
  fs::create_directory(directory_ / "now");
  fs::create_directory(directory_ / "next");
  options_.path = directory_ / "now/hosts";
  options_.poll_interval = std::chrono::milliseconds(2);
  Write(options_.path, "a:1\n");
  Write(directory_ / "next/hosts", "b:1\n");
  Start();
  ASSERT_TRUE(AwaitList("a:1"));
  fs::rename(directory_ / "now", directory_ / "old");
  fs::rename(directory_ / "next", directory_ / "now");
  ASSERT_TRUE(AwaitList("b:1"));
  Replace(options_.path, "c:1\n");
  EXPECT_TRUE(AwaitList("c:1"));
}

TEST_F(WatchedHostfileTest, FileThatIsNoGoodFromTheStartIsAnErrorOfStart) {
  EXPECT_EQ(StartStatus().code(), ErrorCode::kFileUnreadable);
  Write(path_, "a:x\n");
  EXPECT_EQ(StartStatus().code(), ErrorCode::kSpecInvalid);
  options_.path = directory_.path();
  EXPECT_EQ(StartStatus().code(), ErrorCode::kFileUnreadable);
  options_.path = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(options_.path.c_str(), 0600), 0);
  EXPECT_EQ(StartStatus().code(), ErrorCode::kFileUnreadable) << "and it did not hang";
  Settle(*loop_);
  EXPECT_TRUE(log_.lists.empty());
  EXPECT_TRUE(log_.failures.empty());
}

TEST_F(WatchedHostfileTest, StoppedItSaysNothingMore) {
  StartWith("a:1\n");
  source_->Stop();
  Replace(path_, "b:1\n");
  Settle(*loop_);
  EXPECT_EQ(log_.lists.size(), 1U);
}

TEST_F(WatchedHostfileTest, ItsHandlersMayDestroyIt) {
  Write(path_, "a:1\n");
  bool is_told = false;
  source_ = MakeWatchedHostfile(*loop_, options_);
  ASSERT_TRUE(source_
                  ->Start({[&](std::vector<HostSlots>, bool) {
                             is_told = true;
                             source_.reset();
                           },
                           {}})
                  .ok());
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_told; }));
  Settle(*loop_);
}

}  // namespace
}  // namespace hvdray
