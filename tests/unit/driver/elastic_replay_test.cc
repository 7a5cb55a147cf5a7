// SPDX-License-Identifier: Apache-2.0
// Replays: what they show, where they stop, and how they treat an incomplete recording. The
// recordings under tests/golden/record are made here.
#include "launcher/driver/elastic_replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/report/replay_text.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/golden.h"
#include "tests/unit/driver/elastic_job.h"
#include "tests/unit/driver/recording.h"

namespace hvdray {
namespace {

constexpr size_t kNone = ~size_t{0};

ElasticWorld Alive() {
  ElasticWorld world;
  world.is_alive = true;
  world.connect = milliseconds(50);
  world.link_delay = milliseconds(2);
  world.import_time = seconds(3);
  world.steps = 200;
  return world;
}

/// Three hosts; one is lost and returns, another one leaves with notice.
std::vector<std::string> LostAndBack() {
  ElasticPolicy policy = Workers(4, 2, 6);
  policy.cooldown = CooldownRange{seconds(1), seconds(4)};
  ElasticSim sim(policy, Alive(), 11);
  sim.Discover({{"a", 2}, {"b", 2}, {"c", 2}});
  sim.At(seconds(6), [&sim] { sim.CutOff("b"); });
  sim.At(seconds(8), [&sim] { sim.machine("b").is_up = true; });
  sim.At(seconds(15), [&sim] { sim.Leave("c", seconds(20)); });
  EXPECT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 0);
  EXPECT_TRUE(sim.violations().empty());
  return RecordingOf(sim, 11);
}

/// A gang that is restarted once and then fails for good.
std::vector<std::string> GangFails() {
  ElasticPolicy policy = Workers(3, 3);
  policy.mode = ElasticMode::kGang;
  policy.max_restarts = 1;
  ElasticSim sim(policy, Alive(), 12);
  sim.Discover({{"a", 2}, {"b", 1}}, true);
  sim.At(seconds(5), [&sim] { sim.Exit("b", 0, {.exit_code = 7}); });
  sim.At(seconds(15), [&sim] { sim.Exit("a", 1, {.signal = SIGSEGV}); });
  EXPECT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 128 + SIGSEGV);
  EXPECT_TRUE(sim.violations().empty());
  return RecordingOf(sim, 12);
}

/// These two as files, and one whose launcher was killed in the middle of a line.
TEST(ElasticReplayTest, TheRecordingsInTheTreeAreThoseOfTheseJobs) {
  ExpectGolden("tests/golden/record/lost_and_back.jsonl", Joined(LostAndBack()));
  ExpectGolden("tests/golden/record/gang_fails.jsonl", Joined(GangFails()));
  std::string killed = Joined(LostAndBack());
  killed.resize(killed.size() / 2);
  ExpectGolden("tests/golden/record/launcher_killed.jsonl", killed);
}

TEST(ElasticReplayTest, WhatIsPrintedIsAsReviewed) {
  const ReplayResult well = Replayed(LostAndBack()).value();
  EXPECT_TRUE(well.is_well());
  ExpectGolden("tests/golden/record/lost_and_back.txt", ReplayText(well));
  EXPECT_EQ(ReplayFaults(well), "");
  ExpectGolden("tests/golden/record/gang_fails.json", ReplayJson(Replayed(GangFails()).value()));
}

/// The line of the first event of that name after line `from`.
size_t LineOf(const std::vector<std::string>& lines, const std::string& name, size_t from = 0) {
  for (size_t i = from; i < lines.size(); ++i) {
    if (lines[i].find("\"event\":\"" + name + "\"") != std::string::npos) return i;
  }
  return kNone;
}

TEST(ElasticReplayTest, AJobThatDoesNotEndBreaksARuleAtTheEndOfItsRecording) {
  std::vector<std::string> lines = GangFails();
  const size_t last = LineOf(lines, "end") - 1;
  ASSERT_EQ(LineOf(lines, "host_stopped", last), last);
  lines.erase(lines.begin() + static_cast<ptrdiff_t>(last));
  const ReplayResult result = Replayed(lines).value();
  EXPECT_EQ(result.broken, std::vector<std::string>{"the job does not end"});
  EXPECT_EQ(result.broken_line, lines.size());
  ASSERT_FALSE(result.recent.empty());
  EXPECT_LE(result.recent.size(), 10u);
  EXPECT_EQ(result.broken_line, lines.size());
  EXPECT_EQ(result.first_recent() + result.recent.size() - 1, lines.size());
  EXPECT_EQ(result.recent.back(), lines.back().substr(0, 160));
  const std::string where = fmt::format("line {}", lines.size());
  EXPECT_TRUE(NamesFacts(ReplayText(result), {where, "broken rule", result.broken[0]}));
}

TEST(ElasticReplayTest, AnEndThatIsNotAsRecordedIsTold) {
  std::vector<std::string> lines = GangFails();
  const size_t at = lines.back().find("\"exit_code\":139");
  ASSERT_NE(at, std::string::npos);
  lines.back().replace(at, 15, "\"exit_code\":7");
  const ReplayResult result = Replayed(lines).value();
  EXPECT_TRUE(result.broken.empty());
  ASSERT_EQ(result.differences.size(), 1u);
  ExpectSays(result.differences[0], {"exit code", "139", "7"});
  ExpectSays(ReplayFaults(result), {result.differences[0], "hvdray 0.0.0 (simulator)"});
}

TEST(ElasticReplayTest, ARecordingThatIsCutOffAnywhereIsReplayedSoFar) {
  const std::string text = Joined(LostAndBack());
  for (size_t cut = 1; cut < text.size(); cut += 97) {
    ElasticReplay replay("f");
    size_t begin = 0;
    bool has_failed = false;
    const size_t first = text.find('\n');
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos && end < cut;
         begin = end + 1) {
      ASSERT_TRUE(replay.Feed(text.substr(begin, end - begin), ElasticReplay::Line::kWhole).ok());
    }
    if (begin < cut) {
      const std::string rest = text.substr(begin, cut - begin);
      has_failed = !replay.Feed(rest, ElasticReplay::Line::kUnended).ok();
    }
    EXPECT_EQ(has_failed, cut < first) << cut;
    if (!has_failed) {
      EXPECT_TRUE(replay.Finish()->is_well()) << cut;
    }
  }
}

TEST(ElasticReplayTest, ALastLineThatOnlyLacksItsNewlineCounts) {
  ElasticReplay replay("f");
  const std::vector<std::string> lines = GangFails();
  for (const std::string& line : lines) {
    ASSERT_TRUE(replay
                    .Feed(line, &line == &lines.back() ? ElasticReplay::Line::kUnended
                                                       : ElasticReplay::Line::kWhole)
                    .ok());
  }
  const ReplayResult result = replay.Finish().value();
  EXPECT_FALSE(result.is_cut);
  EXPECT_TRUE(result.recorded_end.has_value());
}

TEST(ElasticReplayTest, AnEmptyFileIsNoRecording) {
  ExpectFault("", Replayed({}).status(), ErrorCode::kSpecInvalid, "job.record:1");
}

TEST(ElasticReplayTest, TextsOfARecordingDoNotReachTheTerminalRaw) {
  ReplayResult result;
  result.header.job_id = "\x1b[2J";
  result.steps.push_back({.kind = ReplayStep::Kind::kSaid, .text = "\x1b]0;x\x07"});
  EXPECT_EQ(ReplayText(result).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace hvdray
