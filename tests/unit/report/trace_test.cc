// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/golden.h"
#include "tests/unit/report/sample_elastic.h"
#include "tests/unit/report/sample_events.h"

namespace hvdray {
namespace {

Trace Detailed() { return Trace(At(0), {"node1", "node2"}, true); }

Json Parsed(const Trace& trace, TimePoint now) {
  Result<Json> json = ParseJson(trace.ToJson(now), size_t{64} << 20);
  EXPECT_TRUE(json.ok()) << json.status().ToString();
  return json.ok() ? std::move(json).value() : Json::array();
}

std::string PhasesText(const Trace& trace) {
  std::string text;
  for (const Phase& phase : trace.phases()) {
    text += fmt::format("{} {:.2f}-", phase.name, Seconds(phase.began - At(0)).count());
    text += phase.ended.has_value() ? fmt::format("{:.2f}\n", Seconds(*phase.ended - At(0)).count())
                                    : std::string("\n");
  }
  return text;
}

TEST(TraceTest, AJobIsDrawnAsLanesOfHostsAndRanks) {
  Trace trace = Detailed();
  trace.Begin("resolve", At(0));
  trace.End("resolve", At(0.002));
  trace.Begin(kPhaseHello, At(0.01));
  Feed(trace);
  trace.Begin("report", At(2.2));
  ExpectGolden("tests/golden/report/trace.json", trace.ToJson(At(2.3)));
}

TEST(TraceTest, PhasesFollowFromEventsAlone) {
  Trace trace(At(0), {"node1", "node2"}, false);
  trace.Begin(kPhaseHello, At(0.01));
  Feed(trace);
  EXPECT_EQ(PhasesText(trace), "hello 0.01-0.12\nstart 0.12-0.25\nrun 0.25-1.00\nstop 1.00-2.20\n");
}

TEST(TraceTest, AnElasticJobIsDrawnAsLanesOfSlotsAndGenerations) {
  Trace trace(At(0), {}, true);
  trace.Begin(kPhaseHello, At(0.01));
  FeedElastic(trace);
  ExpectGolden("tests/golden/report/trace_elastic.json", trace.ToJson(At(5.4)));
}

TEST(TraceTest, PhasesOfAnElasticJobFollowFromEventsAlone) {
  Trace trace(At(0), {}, false);
  trace.Begin(kPhaseHello, At(0.01));
  FeedElastic(trace);
  EXPECT_EQ(PhasesText(trace),
            "hello 0.01-0.12\nstart 0.12-0.21\nrun 0.21-5.00\nstandstill 1.60-1.70\n"
            "standstill 3.00-3.25\nstop 5.00-5.20\n");
}

TEST(TraceTest, AJobThatEndsWhileItWaitsHasItsLastStandstill) {
  Trace trace(At(0), {}, false);
  trace.OnEvent(ElasticEvent(event::RankAsked{0}), At(1));
  trace.OnEffect(ElasticEffect(effect::Finish{}), At(601));
  EXPECT_EQ(PhasesText(trace), "standstill 1.00-601.00\n");
}

TEST(TraceTest, NumbersThatNobodyKnowsAreHarmlessInAnElasticJobToo) {
  Trace trace(At(0), {}, true);
  trace.OnEvent(ElasticEvent(event::ProcessStarted{kNoWorker, 7}), At(1));
  trace.OnEvent(ElasticEvent(event::HostLost{-1, Status()}), At(1));
  trace.OnEffect(ElasticEffect(effect::ConnectHost{1 << 30, {"far", 1}}), At(1));
  trace.OnEffect(ElasticEffect(effect::ConnectHost{-5, {"far", 1}}), At(1));
  trace.OnEffect(ElasticEffect(effect::PublishGeneration{1, {RankInfo()}, {}}), At(1));
  trace.OnConnectionsBroken(-3, 1, {}, At(1));
  Parsed(trace, At(2));
}

TEST(TraceTest, WithoutDetailNothingButPhasesIsKept) {
  Trace trace(At(0), {"node1", "node2"}, false);
  Feed(trace);
  for (const Json& record : Parsed(trace, At(3))) {
    if (record["ph"] == "M") continue;
    EXPECT_EQ(record["pid"], 0) << DumpJson(record);
  }
}

TEST(TraceTest, ARestartRepeatsPhasesAndClosesOldSpans) {
  Trace trace = Detailed();
  Feed(trace);
  const size_t before = trace.phases().size();
  Feed(trace, 3);
  EXPECT_EQ(trace.phases().size(), 2 * before);
  for (const Json& record : Parsed(trace, At(9))) {
    if (record["ph"] != "X") continue;
    EXPECT_LE(record["dur"].get<int64_t>(), 2'200'000);
  }
}

TEST(TraceTest, NoRowHasTheNumberOfItsProcess) {
  for (const size_t hosts : {1, 99, 100, 1000}) {
    Trace trace(At(0), std::vector<std::string>(hosts, "node"), true);
    RankInfo last;
    last.host_index = static_cast<int>(hosts) - 1;
    trace.OnEffect(Effect(effect::StartGeneration{1, {last}, 0, 0}), At(1));
    for (const Json& record : Parsed(trace, At(2))) {
      if (record["ph"] != "X") continue;
      EXPECT_GT(record["tid"], record["pid"]) << DumpJson(record);
    }
  }
}

TEST(TraceTest, EachProcessAndRowHasAPlaceInOrder) {
  Trace trace = Detailed();
  Feed(trace);
  std::vector<int> processes;
  std::set<std::pair<int, int>> rows;
  for (const Json& record : Parsed(trace, At(3))) {
    const int pid = record["pid"];
    if (record["name"] == "process_sort_index") processes.push_back(record["args"]["sort_index"]);
    if (record["name"] != "thread_sort_index") continue;
    EXPECT_TRUE(rows.emplace(pid, record["args"]["sort_index"]).second) << DumpJson(record);
  }
  EXPECT_EQ(processes, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(rows.size(), 4u + 3u + 2u);  // Of hvdray, node1, node2.
}

TEST(TraceTest, WorkersLostWithTheirHostEndThere) {
  Trace trace = Detailed();
  RankInfo rank;
  rank.host_index = 1;
  trace.OnEffect(Effect(effect::StartGeneration{1, {rank}, 0, 0}), At(1));
  trace.OnEvent(Event(event::WorkerStarted{1, 0, 4000}), At(2));
  trace.OnEvent(Event(event::HostLost{1, Status(ErrorCode::kAgentLost, "the link closed")}), At(5));
  const Json json = Parsed(trace, At(9));
  const auto found = std::find_if(json.begin(), json.end(), [](const Json& record) {
    return record["name"] == "running, pid 4000";
  });
  ASSERT_NE(found, json.end());
  EXPECT_EQ((*found)["dur"], 3'000'000);
  EXPECT_EQ((*found)["args"]["end"], "lost with its agent");
}

TEST(TraceTest, AWorkerThatEndsBeforeTheLastOneStartsDoesNotHideThatTheJobRuns) {
  Trace trace = Detailed();
  std::vector<RankInfo> ranks(2);
  ranks[1].rank = 1;
  trace.OnEffect(Effect(effect::StartGeneration{1, ranks, 0, 0}), At(1));
  trace.OnEvent(Event(event::WorkerStarted{1, 0, 4000}), At(2));
  trace.OnEvent(Event(event::WorkerExited{1, 0, Exited(7), false}), At(3));
  trace.OnEvent(Event(event::WorkerStarted{1, 1, 4001}), At(4));
  trace.OnEffect(Effect(effect::StopGeneration{1, {0}, Duration::zero()}), At(5));
  EXPECT_EQ(PhasesText(trace), "start 1.00-4.00\nrun 4.00-5.00\nstop 5.00-\n");
}

TEST(TraceTest, AWorkerThatStartsWhileTheGangStopsBeginsNoRun) {
  Trace trace = Detailed();
  trace.OnEffect(Effect(effect::StartGeneration{1, {RankInfo()}, 0, 0}), At(1));
  trace.OnEffect(Effect(effect::StopGeneration{1, {0}, Duration::zero()}), At(2));
  trace.OnEvent(Event(event::WorkerStarted{1, 0, 4000}), At(3));
  EXPECT_EQ(PhasesText(trace), "start 1.00-2.00\nstop 2.00-\n");
}

TEST(TraceTest, SpansThatFollowEachOtherHaveNoGapByRounding) {
  Trace trace(At(0.0000004), {"node1"}, true);
  RankInfo rank;
  trace.OnEffect(Effect(effect::StartGeneration{1, {rank}, 0, 0}), At(1));
  trace.OnEvent(Event(event::WorkerStarted{1, 0, 4000}), At(2.0000006));
  trace.OnEvent(Event(event::WorkerExited{1, 0, Exited(0), false}), At(3.0000002));
  int64_t end = 0;
  for (const Json& record : Parsed(trace, At(4))) {
    if (record["pid"] != 1 || record["ph"] != "X") continue;
    EXPECT_TRUE(end == 0 || record["ts"] == end) << DumpJson(record);
    end = record["ts"].get<int64_t>() + record["dur"].get<int64_t>();
  }
  EXPECT_NE(end, 0);
}

TEST(TraceTest, RunningSpansEndNow) {
  Trace trace = Detailed();
  trace.Begin("resolve", At(1));
  const Json json = Parsed(trace, At(3));
  const auto found = std::find_if(json.begin(), json.end(),
                                  [](const Json& record) { return record["ph"] == "X"; });
  ASSERT_NE(found, json.end());
  EXPECT_EQ((*found)["ts"], 1'000'000);
  EXPECT_EQ((*found)["dur"], 2'000'000);
}

TEST(TraceTest, BeginOfARunningStepAndEndOfAnUnknownOneDoNothing) {
  Trace trace = Detailed();
  trace.Begin("report", At(1));
  trace.Begin("report", At(2));
  trace.End("drain", At(3));
  trace.End("report", At(4));
  trace.End("report", At(5));
  EXPECT_EQ(PhasesText(trace), "report 1.00-4.00\n");
}

TEST(TraceTest, RanksThatNobodyKnowsAreHarmless) {
  Trace trace = Detailed();
  trace.OnEvent(Event(event::WorkerStarted{1, -5, 7}), At(1));
  trace.OnEvent(Event(event::WorkerExited{1, 1 << 30, Exited(0), false}), At(1));
  trace.OnEvent(Event(event::HostReady{-3, {}}), At(1));
  trace.OnEvent(Event(event::GenerationStopped{1, 77, 0, 0}), At(1));
  RankInfo stray;
  stray.rank = 1 << 20;
  trace.OnEffect(Effect(effect::StartGeneration{1, {stray}, 0, 0}), At(1));
  Parsed(trace, At(2));
}

TEST(TraceTest, AJobThatRestartsForDaysStaysWithinItsBound) {
  Trace trace = Detailed();
  for (int i = 0; i < 300'000; ++i) trace.OnEvent(Event(event::ReaderGone{}), At(i));
  EXPECT_EQ(trace.dropped(), 100'000u);
}

TEST(TraceTest, AFullDiskIsOutputLost) {
  const Status status = Detailed().WriteTo("/dev/full", At(1));
  ExpectFault("/dev/full", status, ErrorCode::kOutputLost, "--trace: /dev/full");
}

}  // namespace
}  // namespace hvdray
