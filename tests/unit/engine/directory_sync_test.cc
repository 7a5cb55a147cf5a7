// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/directory_sync.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/other_user.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The test plays the agents; the files are real.
class DirectorySyncTest : public testing::Test {
 protected:
  DirectorySyncTest() : loop_(std::move(*Loop::Create())) {}

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(temp_ / path).parent_path());
    std::ofstream(temp_ / path, std::ios::binary) << text;
  }
  void Add(const std::string& name) {
    directories_.push_back({temp_ / name, "there/" + name, ListDirectory(temp_ / name).value()});
  }
  void Start(std::vector<int> hosts, Duration stall = seconds(30),
             CopySource source = CopySource::kSync) {
    DirectorySync::Handlers handlers;
    handlers.send = [this](int host, wire::Body body) { sent_[host].push_back(std::move(body)); };
    handlers.on_host_done = [this](int host, SyncStats stats, std::vector<std::string> roots) {
      stats_[host] = stats;
      roots_[host] = std::move(roots);
      if (is_dropped_at_host_) sync_.reset();
    };
    handlers.on_failed = [this](int host, Status why) {
      failures_.emplace_back(host, std::move(why));
      sync_.reset();
    };
    handlers.on_done = [this] {
      ++done_;
      sync_.reset();
    };
    sync_ = std::make_unique<DirectorySync>(*loop_, std::move(hosts), directories_, stall,
                                            std::move(handlers), source);
    sync_->Start();
  }
  /// Takes the messages sent to the host, if all are of type T.
  template <typename T>
  std::vector<T> Take(int host) {
    std::vector<T> found;
    for (wire::Body& body : sent_[host]) {
      if (T* one = std::get_if<T>(&body)) {
        found.push_back(std::move(*one));
      } else {
        ADD_FAILURE() << "also sent: " << wire::Name(wire::TypeOf(body));
      }
    }
    sent_[host].clear();
    return found;
  }
  void Want(int host, std::vector<wire::EntryRange> ranges, uint32_t links = 0) {
    sync_->OnWanted(host, {std::move(ranges), links, "/home/x/there"});
  }
  Status Failure() {
    Settle(*loop_);
    EXPECT_EQ(failures_.size(), 1U);
    return failures_.empty() ? Status() : failures_[0].second;
  }

  TempDirectory temp_;
  std::unique_ptr<Loop> loop_;
  std::vector<SyncedDirectory> directories_;
  std::unique_ptr<DirectorySync> sync_;
  std::map<int, std::vector<wire::Body>> sent_;
  std::map<int, SyncStats> stats_;
  std::map<int, std::vector<std::string>> roots_;
  std::vector<std::pair<int, Status>> failures_;
  int done_ = 0;
  bool is_dropped_at_host_ = false;
};

TEST_F(DirectorySyncTest, HostGetsTheListThenWhatItWants) {
  Write("p/a", "hello");
  Write("p/b", "unchanged");
  ::chmod((temp_ / "p/a").c_str(), 0755);
  Add("p");
  Start({4});
  const auto lists = Take<wire::DirectoryList>(4);
  ASSERT_EQ(lists.size(), 1U);
  EXPECT_EQ(lists[0].target, "there/p");
  EXPECT_EQ(lists[0].entries, directories_[0].listing.entries);
  Want(4, {{0, 1}});
  const auto files = Take<wire::File>(4);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].bytes, "hello");
  EXPECT_TRUE(files[0].is_end);
  EXPECT_EQ(files[0].mode, 0755);
  EXPECT_EQ(files[0].mtime_s, lists[0].entries[0].mtime_s);
  EXPECT_EQ(files[0].mtime_ns, lists[0].entries[0].mtime_ns);
  Settle(*loop_);
  EXPECT_EQ(done_, 0) << "it is not there yet";
  sync_->OnTaken(4, {1, 5});
  Settle(*loop_);
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(stats_[4].files, 1U);
  EXPECT_EQ(stats_[4].bytes, 5U);
  EXPECT_EQ(roots_[4], (std::vector<std::string>{"/home/x/there"}));
}

TEST_F(DirectorySyncTest, HostIsToldWhoCanChangeTheSource) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  Write("p/a", "hello");
  GiveAway(temp_ / "p");
  ASSERT_EQ(::chmod((temp_ / "p").c_str(), 0775), 0);
  Add("p");
  Start({4});
  const auto lists = Take<wire::DirectoryList>(4);
  ASSERT_EQ(lists.size(), 1U);
  EXPECT_EQ(lists[0].trustees, (Trustees{{kOtherUser}, {kOtherUser}, false}));
}

TEST_F(DirectorySyncTest, HostThatHasEverythingIsDoneAtOnce) {
  Write("p/a", "hello");
  Add("p");
  Start({0, 1});
  Want(0, {});
  Settle(*loop_);
  EXPECT_EQ(stats_.count(0), 1U);
  EXPECT_EQ(done_, 0);
  Want(1, {}, 2);
  Settle(*loop_);
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(stats_[0], (SyncStats{0, 0, stats_[0].time}));
  EXPECT_EQ(stats_[1].files, 2U) << "the links that it made";
}

TEST_F(DirectorySyncTest, EmptyDirectoryIsTold) {
  fs::create_directories(temp_ / "p");
  Add("p");
  Start({0});
  EXPECT_EQ(Take<wire::DirectoryList>(0).size(), 1U);
}

TEST_F(DirectorySyncTest, DirectoriesComeOneAfterTheOther) {
  Write("p/a", "1");
  Write("q/b", "2");
  Add("p");
  Add("q");
  Start({0});
  EXPECT_EQ(Take<wire::DirectoryList>(0)[0].directory, 0U);
  Want(0, {});
  const auto lists = Take<wire::DirectoryList>(0);
  ASSERT_EQ(lists.size(), 1U);
  EXPECT_EQ(lists[0].directory, 1U);
  EXPECT_EQ(lists[0].entries[0].path, "b");
  sync_->OnWanted(0, {{}, 0, "/other"});
  Settle(*loop_);
  EXPECT_EQ(roots_[0], (std::vector<std::string>{"/home/x/there", "/other"}));
}

TEST_F(DirectorySyncTest, LongListComesInPartsEachBehindTheFilesOfTheOneBefore) {
  for (int i = 0; i < 2500; ++i) Write("p/" + std::to_string(i), "");
  Add("p");
  Start({0});
  size_t entries = 0;
  for (int part = 0; part < 2; ++part) {
    const auto lists = Take<wire::DirectoryList>(0);
    ASSERT_EQ(lists.size(), 1U) << part;
    entries += lists[0].entries.size();
    EXPECT_LE(lists[0].entries.size(), wire::kMaxDirectoryEntries);
    Want(0, {{0, 1}});
    EXPECT_EQ(Take<wire::File>(0).size(), 1U);
    sync_->OnTaken(0, {1, 0});
  }
  EXPECT_EQ(entries, 2500U);
  Settle(*loop_);
  EXPECT_EQ(done_, 1);
}

TEST_F(DirectorySyncTest, NoMoreThanTheWindowIsOnItsWay) {
  const std::string big(3 * wire::kDirectoryWindowBytes + 7, 'x');
  Write("p/a", big);
  Add("p");
  Start({0});
  Take<wire::DirectoryList>(0);
  Want(0, {{0, 1}});
  std::string received;
  bool is_whole = false;
  while (!is_whole) {
    const auto chunks = Take<wire::File>(0);
    ASSERT_FALSE(chunks.empty());
    uint32_t bytes = 0;
    for (const wire::File& chunk : chunks) {
      bytes += static_cast<uint32_t>(chunk.bytes.size());
      received += chunk.bytes;
      is_whole = chunk.is_end;
    }
    EXPECT_LE(bytes, wire::kDirectoryWindowBytes);
    sync_->OnTaken(0, {is_whole ? 1U : 0U, bytes});
  }
  EXPECT_TRUE(received == big);
}

TEST_F(DirectorySyncTest, NoMoreFilesThanTheWindowAreOnTheirWay) {
  for (int i = 0; i < 600; ++i) Write("p/" + std::to_string(i), "");
  Add("p");
  Start({0});
  Take<wire::DirectoryList>(0);
  Want(0, {{0, 600}});
  EXPECT_EQ(Take<wire::File>(0).size(), wire::kDirectoryWindowFiles);
  sync_->OnTaken(0, {64, 0});
  EXPECT_EQ(Take<wire::File>(0).size(), 64U);
}

TEST_F(DirectorySyncTest, FileThatHasChangedSinceTheListGoesAsItIsNow) {
  Write("p/a", "old");
  Add("p");
  Start({0});
  Take<wire::DirectoryList>(0);
  Write("p/a", "newer");
  Want(0, {{0, 1}});
  const auto files = Take<wire::File>(0);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].bytes, "newer");
  struct stat info {};
  ::stat((temp_ / "p/a").c_str(), &info);
  EXPECT_EQ(files[0].mtime_ns, info.st_mtim.tv_nsec);
}

TEST_F(DirectorySyncTest, FileThatChangesWhileItIsReadIsSentOnceMore) {
  const std::string first(2 * wire::kDirectoryWindowBytes, 'x');
  const std::string second(wire::kDirectoryWindowBytes / 2, 'y');
  Write("p/a", first);
  Add("p");
  Start({0});
  Take<wire::DirectoryList>(0);
  Want(0, {{0, 1}});
  const auto begun = Take<wire::File>(0);
  Write("p/a", second);
  sync_->OnTaken(0, {0, wire::kDirectoryWindowBytes});
  const auto again = Take<wire::File>(0);
  ASSERT_GE(again.size(), 2U);
  EXPECT_TRUE(again[0].is_restart);
  std::string received;
  for (size_t i = 1; i < again.size(); ++i) received += again[i].bytes;
  EXPECT_TRUE(received == second);
  EXPECT_TRUE(again.back().is_end);
}

TEST_F(DirectorySyncTest, FileThatChangesAgainEndsTheCopyByName) {
  Write("p/a", std::string(2 * wire::kDirectoryWindowBytes, 'x'));
  Add("p");
  Start({0});
  Take<wire::DirectoryList>(0);
  Want(0, {{0, 1}});
  for (int i = 0; i < 2; ++i) {
    uint32_t bytes = 0;
    for (const wire::File& chunk : Take<wire::File>(0)) {
      bytes += static_cast<uint32_t>(chunk.bytes.size());
    }
    // Grows each time, so that another window is left.
    std::ofstream(temp_ / "p/a", std::ios::app) << std::string(wire::kDirectoryWindowBytes, 'y');
    for (int turn = 0; turn < 4 && failures_.empty() && bytes > 0; ++turn) {
      sync_->OnTaken(0, {0, bytes});
      Settle(*loop_);
      bytes = 0;
      bool has_restarted = false;
      for (const wire::Body& body : sent_[0]) {
        const auto& chunk = std::get<wire::File>(body);
        has_restarted = has_restarted || chunk.is_restart;
        bytes += static_cast<uint32_t>(chunk.bytes.size());
      }
      if (has_restarted) break;
      sent_[0].clear();
    }
  }
  const Status status = Failure();
  ExpectError(status, ErrorCode::kSyncFailed, {temp_ / "p/a", "changing"});
}

TEST_F(DirectorySyncTest, FileThatIsGoneEndsTheCopyByName) {
  Write("p/a", "x");
  Add("p");
  Start({0});
  fs::remove(temp_ / "p/a");
  Want(0, {{0, 1}});
  const Status status = Failure();
  ExpectError(status, ErrorCode::kSyncFailed,
              {temp_ / "p/a", "disappeared", "hint: ", ".gitignore"});
}

TEST_F(DirectorySyncTest, FileThatBecameALinkIsNotFollowed) {
  Write("p/a", "x");
  Write("secret", "y");
  Add("p");
  Start({0});
  Take<wire::DirectoryList>(0);
  fs::remove(temp_ / "p/a");
  fs::create_symlink("../secret", temp_ / "p/a");
  Want(0, {{0, 1}});
  EXPECT_TRUE(Take<wire::File>(0).empty());
  EXPECT_EQ(Failure().code(), ErrorCode::kSyncFailed);
}

TEST_F(DirectorySyncTest, ProblemOfAHostNamesDirectoryPlaceAndReason) {
  Write("p/a", "x");
  Add("p");
  Start({0, 1});
  sync_->OnProblem(1, {ENOSPC, "write", "/home/x/there/a"});
  sync_->OnProblem(0, {EACCES, "write", "/home/x/there/a"});
  const Status status = Failure();
  EXPECT_EQ(failures_[0].first, 1) << "the first one counts";
  ExpectError(status, ErrorCode::kOutOfResources,
              {"--sync " + (temp_ / "p"), "write /home/x/there/a", std::strerror(ENOSPC)});
  EXPECT_EQ(done_, 0);
}

TEST_F(DirectorySyncTest, AFaultOfAMountNamesNoOptionOfRun) {
  Write("p/a", "x");
  Add("p");
  for (const int error : {ENOSPC, EISDIR, 0, -1}) {
    Start({0}, seconds(30), CopySource::kFileMounts);
    if (error < 0) {
      fs::remove(fs::path(temp_ / "p/a"));
      Want(0, {{0, 1}});
    } else {
      sync_->OnProblem(0, {error, "write", "/home/x/there/a"});
    }
    Settle(*loop_);
    const Status status = failures_.back().second;
    EXPECT_EQ(status.message().find("--sync"), std::string::npos) << status.message();
    const std::string_view where = error < 0 ? "rsync_exclude" : "in file_mounts";
    EXPECT_NE(status.hint().find(where), std::string::npos) << status.hint();
  }
}

TEST_F(DirectorySyncTest, OtherProblemsAreOfTheirOwnKind) {
  Write("p/a", "x");
  Add("p");
  Start({0});
  sync_->OnProblem(0, {EROFS, "make folder", "/x"});
  EXPECT_EQ(Failure().code(), ErrorCode::kSyncFailed);
}

TEST_F(DirectorySyncTest, HostThatAsksForWhatIsNotInTheListBreaksTheRules) {
  Write("p/d/a", "x");
  Add("p");
  const std::vector<wire::DirectoryWanted> bad = {
      {{{0, 1}}, 0, "/r"},  // a directory
      {{{1, 2}}, 0, "/r"},  // beyond the last entry
      {{}, 0, "relative"},
      {{}, 0, ""},
  };
  for (const wire::DirectoryWanted& wanted : bad) {
    failures_.clear();
    Start({0});
    sync_->OnWanted(0, wanted);
    EXPECT_EQ(Failure().code(), ErrorCode::kProtocolError);
  }
  failures_.clear();
  Start({0});
  Want(0, {{1, 1}});
  Want(0, {{1, 1}});
  EXPECT_EQ(Failure().code(), ErrorCode::kProtocolError) << "twice";
}

TEST_F(DirectorySyncTest, HostThatHasTakenMoreThanWasSentBreaksTheRules) {
  Write("p/a", "x");
  Add("p");
  for (const wire::FileTaken& taken : {wire::FileTaken{0, 2}, wire::FileTaken{2, 1}}) {
    failures_.clear();
    Start({0});
    Want(0, {{0, 1}});
    sync_->OnTaken(0, taken);
    EXPECT_EQ(Failure().code(), ErrorCode::kProtocolError);
  }
}

TEST_F(DirectorySyncTest, HostThatDoesNotGoOnIsGivenUp) {
  Write("p/a", "x");
  Add("p");
  Start({0, 1}, milliseconds(40));
  Want(0, {});
  ASSERT_TRUE(RunUntil(*loop_, [this] { return !failures_.empty(); }));
  EXPECT_EQ(failures_[0].first, 1);
  EXPECT_EQ(failures_[0].second.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(failures_[0].second.message().find("made no progress for 0.04 s"), std::string::npos);
}

TEST_F(DirectorySyncTest, HostThatGoesOnSlowlyIsNotGivenUp) {
  Write("p/a", std::string(40, 'x'));
  Add("p");
  Start({0}, milliseconds(60));
  Want(0, {{0, 1}});
  int taken = 0;
  // A byte every 10 ms: in total several times the limit.
  const Watch slow = loop_->Every(milliseconds(10), [&] {
    if (taken < 40 && sync_) sync_->OnTaken(0, {++taken == 40 ? 1U : 0U, 1});
  });
  ASSERT_TRUE(RunUntil(*loop_, [this] { return done_ > 0 || !failures_.empty(); }));
  EXPECT_EQ(done_, 1);
}

TEST_F(DirectorySyncTest, WhoeverHearsOfAHostMayDropTheCopy) {
  Write("p/a", "x");
  Add("p");
  is_dropped_at_host_ = true;
  Start({0, 1});
  Want(0, {});
  Want(1, {});
  Settle(*loop_);
  EXPECT_EQ(stats_.size(), 1U);
  EXPECT_EQ(done_, 0);
}

}  // namespace
}  // namespace hvdray
