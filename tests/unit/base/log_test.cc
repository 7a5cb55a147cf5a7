// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

// Everything that is written to stderr while `body` runs.
template <typename Body>
std::string StderrOf(const Body& body) {
  const TempDirectory directory;
  const std::string path = directory / "stderr";
  const int saved = ::dup(STDERR_FILENO);
  {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    ::dup2(file.get(), STDERR_FILENO);
  }
  body();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  return ReadFile(path).value();
}

class LogTest : public testing::Test {
 protected:
  void TearDown() override {
    SetLogLevel(LogLevel::kWarning);
    SetLogJson(false);
  }
};

TEST_F(LogTest, LineHasStampLevelPlaceAndText) {
  const std::string line =
      StderrOf([] { Log(LogLevel::kWarning, "gang[gen=3] host=b", "lost rank={}", 5); });
  EXPECT_TRUE(line.ends_with("Z W gang[gen=3] host=b: lost rank=5\n")) << line;
  ASSERT_GE(line.size(), 24u);
  EXPECT_EQ(line[4], '-');
  EXPECT_EQ(line[10], 'T');
  EXPECT_EQ(line[19], '.');
}

TEST_F(LogTest, ASinkTakesTheLinesOfItsThreadOnly) {
  std::vector<std::string> taken;
  const std::string written = StderrOf([&taken] {
    {
      const LogSink sink([&taken](std::string_view line) {
        taken.emplace_back(line);
        Log(LogLevel::kWarning, "x", "said by the sink");
      });
      Log(LogLevel::kWarning, "x", "first");
      Log(LogLevel::kInfo, "x", "above the level");
      std::thread([] { Log(LogLevel::kWarning, "x", "of another thread"); }).join();
      Log(LogLevel::kWarning, "x", "second");
    }
    Log(LogLevel::kWarning, "x", "after it");
  });
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_TRUE(taken[0].ends_with(" W x: first")) << taken[0];
  EXPECT_TRUE(taken[1].ends_with(" W x: second")) << taken[1];
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 4) << written;
  EXPECT_NE(written.find("of another thread"), std::string::npos);
  EXPECT_NE(written.find("after it"), std::string::npos);
}

TEST_F(LogTest, MessagesAboveTheLevelAreDropped) {
  const auto all = [] {
    Log(LogLevel::kError, "x", "e");
    Log(LogLevel::kWarning, "x", "w");
    Log(LogLevel::kInfo, "x", "i");
    Log(LogLevel::kDebug, "x", "d");
  };
  const auto count = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(count(StderrOf(all)), 2);
  SetLogLevel(LogLevel::kDebug);
  EXPECT_EQ(count(StderrOf(all)), 4);
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(count(StderrOf(all)), 1);
  EXPECT_FALSE(LogEnabled(LogLevel::kWarning));
}

TEST_F(LogTest, JsonLinesParseWhateverTheTextHolds) {
  SetLogJson(true);
  const std::string nasty = "quote \" slash \\ newline \n tab \t nul \x01 latin \xe9 end";
  const std::string line = StderrOf([&] { LogMessage(LogLevel::kError, "where \"here\"", nasty); });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  const Result<Json> json = ParseJson(line);
  ASSERT_TRUE(json.ok()) << line;
  EXPECT_EQ((*json)["level"], "error");
  EXPECT_EQ((*json)["where"], "where \"here\"");
  const auto message = (*json)["message"].get<std::string>();
  EXPECT_NE(message.find("quote \" slash \\ newline \n tab \t nul \x01"), std::string::npos);
}

TEST_F(LogTest, JsonKeepsUtf8) {
  SetLogJson(true);
  const std::string line = NoticeLine(LogLevel::kInfo, "hvdray", "café …");
  EXPECT_NE(line.find("\"café …\""), std::string::npos) << line;
}

TEST_F(LogTest, ALineForTheUserIsPlainOrAnObjectAndKnowsNoLevel) {
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(NoticeLine(LogLevel::kInfo, "hvdray", "text"), "hvdray: text");
  EXPECT_EQ(NoticeLine(LogLevel::kInfo, "hvdray", "a\x1b[2Jb\n  hint: c\x07"),
            "hvdray: ab\n  hint: c")
      << "a file's author wrote it";
  EXPECT_EQ(StderrOf([] { Tell(LogLevel::kWarning, "hvdray run", "text"); }),
            "hvdray run: warning: text\n");
  SetLogJson(true);
  const Result<Json> json =
      ParseJson(StderrOf([] { Tell(LogLevel::kWarning, "hvdray run", "text"); }));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["level"], "warn");
  EXPECT_EQ((*json)["where"], "hvdray run");
  EXPECT_EQ((*json)["message"], "text");
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  const std::string text = StderrOf([] {
    std::vector<std::thread> threads;
    for (char c : {'a', 'b', 'c', 'd'}) {
      threads.emplace_back([c] {
        for (int i = 0; i < 200; ++i) LogMessage(LogLevel::kError, "t", std::string(100, c));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  size_t lines = 0;
  for (size_t at = 0; at < text.size(); ++lines) {
    const size_t end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(text.substr(end - 100, 100), std::string(100, text[end - 1]));
    at = end + 1;
  }
  EXPECT_EQ(lines, 800u);
}

}  // namespace
}  // namespace hvdray
