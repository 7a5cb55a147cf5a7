// SPDX-License-Identifier: Apache-2.0
// Real scripts, run by a real loop.
#include "launcher/engine/discovery_script.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "launcher/job/hostfile.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/host_sources/source_log.h"

namespace hvdray {
namespace {

class DiscoveryScriptTest : public testing::Test {
 protected:
  DiscoveryScriptTest()
      : loop_(std::move(*Loop::Create())),
        sink_([this](std::string_view line) { log_lines_.emplace_back(line); }) {}

  void Write(const std::string& name, const std::string& text) const {
    // As a scheduler would: never half a file.
    std::ofstream(directory_ / (name + ".new")) << text;
    ASSERT_EQ(std::rename((directory_ / (name + ".new")).c_str(), (directory_ / name).c_str()), 0);
  }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(directory_ / name).rdbuf();
    return text.str();
  }
  /// `script` runs in the test's directory.
  void Start(const std::string& script, Duration limit = std::chrono::hours(1)) {
    source_ = MakeDiscoveryScript(*loop_, Options(script, limit));
    const Status status = source_->Start(log_.handlers());
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  DiscoveryScriptOptions Options(const std::string& script, Duration limit) {
    DiscoveryScriptOptions options;
    options.command = "cd " + directory_.path() + " && echo >> runs; " + script;
    options.interval = std::chrono::milliseconds(1);
    options.limit = limit;
    options.parse = [](std::string_view text, std::string* warning) {
      return ParseDiscoveredHosts(text, 4, warning);
    };
    options.on_stderr = [this](std::string line) { errors_.push_back(std::move(line)); };
    return options;
  }
  bool AwaitRuns(size_t more) {
    const size_t wanted = Read("runs").size() + more;
    return RunUntil(*loop_, [&] { return Read("runs").size() >= wanted; });
  }
  bool AwaitList(const std::string& list) {
    return RunUntil(*loop_, [&] { return !log_.lists.empty() && log_.lists.back() == list; });
  }
  bool AwaitFailures(size_t count) {
    return RunUntil(*loop_, [&] { return log_.failures.size() >= count; });
  }

  TempDirectory directory_;
  std::unique_ptr<Loop> loop_;
  std::vector<std::string> log_lines_;
  LogSink sink_;
  SourceLog log_;
  std::vector<std::string> errors_;
  std::unique_ptr<HostSource> source_;
};

TEST_F(DiscoveryScriptTest, FirstRunIsAtOnceAndTheOrderIsTheScripts) {
  Start("printf 'z:1\\n\\n a \\nm:3\\n'");
  EXPECT_TRUE(log_.lists.empty()) << "told from within Start()";
  ASSERT_TRUE(AwaitList("z:1 a:4 m:3"));
  EXPECT_FALSE(log_.is_final);
}

TEST_F(DiscoveryScriptTest, NoHostsAreAnAnswer) {
  Start("true");
  ASSERT_TRUE(AwaitList(""));
  EXPECT_TRUE(log_.failures.empty());
}

TEST_F(DiscoveryScriptTest, OnlyChangesAreTold) {
  Write("hosts", "a:2\nb:2\n");
  Start("cat hosts");
  ASSERT_TRUE(AwaitList("a:2 b:2"));
  Write("hosts", "b:2\na:2\n");
  ASSERT_TRUE(AwaitRuns(3));
  Write("hosts", "b:2\na:2\nc:1\n");
  ASSERT_TRUE(AwaitList("b:2 a:2 c:1"));
  EXPECT_EQ(log_.lists, (std::vector<std::string>{"a:2 b:2", "b:2 a:2 c:1"}));
}

TEST_F(DiscoveryScriptTest, FailingFirstIsToldBeforeAnyListAndItGoesOn) {
  Start("echo 'no credentials' >&2; [ -e hosts ] || exit 3; cat hosts");
  ASSERT_TRUE(AwaitFailures(1));
  EXPECT_TRUE(log_.lists.empty());
  EXPECT_EQ(log_.failures[0].code(), ErrorCode::kSpecInvalid);
  EXPECT_TRUE(NamesFacts(log_.failures[0].message(), {"script 'cd ", "code 3", "no credentials"}))
      << log_.failures[0].message();
  EXPECT_EQ(errors_[0], "no credentials");
  Write("hosts", "a:2");
  ASSERT_TRUE(AwaitList("a:2"));
}

TEST_F(DiscoveryScriptTest, FailingLaterIsToldOnceAndSoIsItsEnd) {
  Write("hosts", "a:2");
  Start("cat hosts");
  ASSERT_TRUE(AwaitList("a:2"));
  std::rename((directory_ / "hosts").c_str(), (directory_ / "away").c_str());
  ASSERT_TRUE(AwaitFailures(1));
  ASSERT_TRUE(AwaitRuns(3));
  EXPECT_EQ(log_.failures.size(), 1U);
  Write("hosts", "a:2");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return log_.lists.size() == 2; }))
      << "the same list, told since the script works again";
  EXPECT_EQ(log_.lists[1], "a:2");
}

TEST_F(DiscoveryScriptTest, HangingOneIsKilledAndRunAgain) {
  Write("hosts", "a:2");
  Start("[ -e hangs ] && sleep 3600; cat hosts", std::chrono::milliseconds(500));
  ASSERT_TRUE(AwaitList("a:2"));
  Write("hangs", "");
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    return !log_.failures.empty() && log_.failures.back().code() == ErrorCode::kDeadlineExceeded;
  }));
  Write("hosts", "b:1");
  std::rename((directory_ / "hangs").c_str(), (directory_ / "away").c_str());
  EXPECT_TRUE(AwaitList("b:1"));
}

TEST_F(DiscoveryScriptTest, TwoNeverRunAtOnce) {
  Start("mkdir lock || echo >> doubled; echo a:$(wc -l < runs); rmdir lock");
  ASSERT_TRUE(AwaitRuns(6));
  EXPECT_EQ(Read("doubled"), "");
  EXPECT_TRUE(log_.failures.empty()) << log_.failures[0].ToString();
}

TEST_F(DiscoveryScriptTest, GarbageIsRefusedWholeWithItsLine) {
  Write("hosts", "a:2\nb:two\n");
  Start("cat hosts");
  ASSERT_TRUE(AwaitFailures(1));
  EXPECT_TRUE(log_.lists.empty());
  EXPECT_NE(log_.failures[0].message().find("line 2: "), std::string::npos)
      << log_.failures[0].message();
  EXPECT_FALSE(log_.failures[0].hint().empty());
}

TEST_F(DiscoveryScriptTest, BytesThatAreNoTextMakeAMessageThatIs) {
  Start("head -c 3000 /dev/urandom | tr -d '\\n'");
  ASSERT_TRUE(AwaitFailures(1));
  for (const char c : log_.failures[0].message()) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  EXPECT_LT(log_.failures[0].message().size(), 1000U);
}

TEST_F(DiscoveryScriptTest, HostThatComesTwiceIsWarnedOfOnceAndTheFirstCounts) {
  Write("hosts", "a:2\nb:1\na:3\n");
  Start("cat hosts");
  ASSERT_TRUE(AwaitList("a:2 b:1"));
  ASSERT_TRUE(AwaitRuns(3));
  ASSERT_EQ(log_lines_.size(), 1U);
  EXPECT_TRUE(NamesFacts(log_lines_[0], {"host a", "'a:2'", "line 1", "'a:3'", "line 3"}))
      << log_lines_[0];
}

TEST_F(DiscoveryScriptTest, EndlessOutputIsAFailure) {
  DiscoveryScriptOptions options = Options("yes", std::chrono::hours(1));
  options.max_output_bytes = 100'000;
  source_ = MakeDiscoveryScript(*loop_, std::move(options));
  ASSERT_TRUE(source_->Start(log_.handlers()).ok());
  ASSERT_TRUE(AwaitFailures(1));
  EXPECT_TRUE(NamesFacts(log_.failures[0].message(), {"100000 bytes"}))
      << log_.failures[0].message();
}

TEST_F(DiscoveryScriptTest, StoppedWhileItRunsItSaysNothingMore) {
  Start("echo started >&2; sleep 3600");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return !errors_.empty(); }));
  source_->Stop();
  Settle(*loop_);
  EXPECT_EQ(Read("runs"), "\n");
  EXPECT_TRUE(log_.lists.empty());
  EXPECT_TRUE(log_.failures.empty());
}

TEST_F(DiscoveryScriptTest, ItsHandlersMayDestroyIt) {
  for (const std::string script : {"echo a:1", "exit 1"}) {
    source_ = MakeDiscoveryScript(*loop_, Options(script, std::chrono::hours(1)));
    ASSERT_TRUE(source_
                    ->Start({[&](std::vector<HostSlots>, bool) { source_.reset(); },
                             [&](const Status&) { source_.reset(); }})
                    .ok());
    EXPECT_TRUE(RunUntil(*loop_, [&] { return source_ == nullptr; }));
  }
}

TEST_F(DiscoveryScriptTest, WrongCommandIsRefusedBeforeTheStartAndNoHandlerHearsOfIt) {
  DiscoveryScriptOptions options = Options("", std::chrono::hours(1));
  options.command = directory_ / "missing.sh";
  source_ = MakeDiscoveryScript(*loop_, std::move(options));
  EXPECT_EQ(source_->Start(log_.handlers()).code(), ErrorCode::kFileUnreadable);
  Settle(*loop_);
  EXPECT_TRUE(log_.failures.empty());
}

TEST_F(DiscoveryScriptTest, CheckKnowsMissingDirectoriesAndWhatIsNotExecutable) {
  Write("plain.sh", "echo a:1\n");
  Write("good.sh", "echo a:1\n");  // no first line: the shell runs it all the same
  ASSERT_EQ(::chmod((directory_ / "plain.sh").c_str(), 0644), 0);
  ASSERT_EQ(::chmod((directory_ / "good.sh").c_str(), 0755), 0);
  EXPECT_EQ(CheckDiscoveryCommand(" \t").code(), ErrorCode::kUsage);
  EXPECT_EQ(CheckDiscoveryCommand((directory_ / "missing.sh") + " --all").code(),
            ErrorCode::kFileUnreadable);
  EXPECT_EQ(CheckDiscoveryCommand(directory_.path()).code(), ErrorCode::kUsage);
  const Status plain = CheckDiscoveryCommand(directory_ / "plain.sh");
  EXPECT_EQ(plain.code(), ErrorCode::kUsage);
  EXPECT_NE(plain.hint().find("make it executable"), std::string::npos) << plain.hint();
  for (const std::string& good :
       {directory_ / "good.sh", "  " + (directory_ / "good.sh") + " x y",
        "sh " + (directory_ / "plain.sh"), std::string("~/x.sh"), std::string("$HOME/x.sh"),
        std::string("'/a b/x.sh'"), std::string("echo a:1"), std::string("A=/b /no/such"),
        std::string("(/no/such)")}) {
    EXPECT_TRUE(CheckDiscoveryCommand(good).ok()) << good;
  }
}

TEST_F(DiscoveryScriptTest, FileWithoutAFirstLineRuns) {
  Write("good.sh", "echo a:1\n");
  ASSERT_EQ(::chmod((directory_ / "good.sh").c_str(), 0755), 0);
  DiscoveryScriptOptions options = Options("", std::chrono::hours(1));
  options.command = directory_ / "good.sh";
  source_ = MakeDiscoveryScript(*loop_, std::move(options));
  ASSERT_TRUE(source_->Start(log_.handlers()).ok());
  EXPECT_TRUE(AwaitList("a:1"));
}

}  // namespace
}  // namespace hvdray
