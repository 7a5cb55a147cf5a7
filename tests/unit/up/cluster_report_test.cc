// SPDX-License-Identifier: Apache-2.0
// --events and --report of `up` and `down`: each fact has its line, and docs/cluster.md lists
// exactly the written keys.
#include "cluster/up/cluster_report.h"

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <set>

#include "base/fd.h"
#include "cluster/up/cluster_events.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/report/doc_tables.h"

namespace hvdray {
namespace {

using std::chrono::seconds;

constexpr const char* kPage = "docs/cluster.md";

TimePoint At(int second) { return TimePoint{seconds(100 + second)}; }

ClusterCall Call() {
  ClusterCall call;
  call.command = "up";
  call.name = "c";
  call.file = "c.yaml";
  call.build = "hvdray 1";
  call.began = At(0);
  return call;
}

StepOutcome Step() {
  StepOutcome step;
  step.kind = StepKind::kFiles;
  step.hash = "aa";
  step.took = seconds(2);
  step.copied = SyncStats{.files = 3, .bytes = 40};
  return step;
}

NodeRow Row(const std::string& address, bool is_head) {
  NodeRow row;
  row.address = address;
  row.is_head = is_head;
  row.need = "create";
  row.state = "waiting for the head";
  return row;
}

/// With a value wherever there may be one.
NodeRow FullRow() {
  NodeRow row = Row("a", true);
  row.processes = 4;
  row.boot = row.log_in = row.set_up = row.join = row.end = seconds(1);
  row.steps = {Step()};
  row.steps[0].why = {ErrorCode::kNodeSetupFailed, "step"};
  row.copied = SyncStats{.files = 3, .bytes = 40, .time = seconds(1)};
  row.versions = {"2.60.0", "3.11.7"};
  row.why = {ErrorCode::kHostRefused, "refused", "look there"};
  return row;
}

void Flatten(const Json& json, const std::string& path, std::set<std::string>& keys) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      Flatten(value, path.empty() ? key : path + "." + key, keys);
    }
  } else if (json.is_array() && !json.empty()) {
    for (const Json& element : json) Flatten(element, path + "[]", keys);
  } else {
    keys.insert(path);
  }
}

TEST(ClusterReportTest, EveryKeyIsDocumentedAndNoOther) {
  ClusterReport report;
  report.call = Call();
  report.error = {ErrorCode::kHostRefused, "a: refused"};
  report.nodes = {FullRow()};
  std::set<std::string> written;
  Flatten(ToJson(report), "", written);
  std::set<std::string> documented;
  for (const DocRow& row : DocRows(kPage, "Report of up and down")) {
    documented.merge(InBackticks(row.at(0)));
  }
  // An error has these keys wherever it stands.
  std::set<std::string> expanded;
  for (const std::string& key : documented) {
    if (!key.ends_with("error")) {
      expanded.insert(key);
      continue;
    }
    for (const char* of : {"code", "name", "message", "hint", "retriable"}) {
      expanded.insert(key + "." + of);
    }
  }
  EXPECT_EQ(written, expanded);
}

TEST(ClusterReportTest, WhatIsNotKnownIsNull) {
  ClusterReport report;
  report.call = Call();
  report.ended = At(7);
  NodeRow bare = Row("b", false);
  bare.need = {};
  report.nodes = {Row("a", true), bare};
  const Json json = ToJson(report);
  EXPECT_EQ(json["schema"], kClusterReportSchema);
  EXPECT_EQ(json["duration_s"], 7.0);
  EXPECT_EQ(json["exit"]["error"], nullptr);
  EXPECT_EQ(json["nodes"][0]["role"], "head");
  EXPECT_EQ(json["nodes"][0]["state"], "waiting_for_the_head");
  for (const char* key : {"need", "error", "boot_s", "log_in_s", "set_up_s", "join_s", "end_s",
                          "copied", "ray", "python"}) {
    EXPECT_EQ(json["nodes"][1][key], nullptr) << key;
  }
}

TEST(ClusterReportTest, AFailureThatOnlyFollowedIsNotTheFirst) {
  std::vector<NodeRow> rows = {Row("a", true), Row("b", false), Row("c", false)};
  EXPECT_TRUE(FirstFailure(rows).ok());
  rows[0].why = {ErrorCode::kCancelled, "the head failed"};
  EXPECT_EQ(FirstFailure(rows).code(), ErrorCode::kCancelled);
  rows[1].why = {ErrorCode::kHostRefused, "refused"};
  rows[2].why = {ErrorCode::kNodeSetupFailed, "setup"};
  EXPECT_EQ(FirstFailure(rows).code(), ErrorCode::kHostRefused);
  EXPECT_EQ(FirstFailure(rows).message(), "b: refused");
}

TEST(ClusterReportTest, TheTableHasALineForEachNode) {
  NodeRow failed = FullRow();
  failed.boot.reset();
  const std::vector<NodeRow> rows = {failed, Row("b", false)};
  const std::string text = RowsText(rows);
  EXPECT_NE(text.find("failed: refused"), std::string::npos) << text;
  EXPECT_NE(text.find("waiting for the head"), std::string::npos) << text;
  EXPECT_EQ(text.find("boot"), std::string::npos) << "no machine was ordered";
}

class ClusterEventsTest : public testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  std::unique_ptr<ClusterEvents> Open(std::string path) {
    ClusterEventsOptions options;
    options.path = std::move(path);
    options.call = Call();
    options.nodes = {Row("a", true), Row("b", false)};
    options.on_damaged = [this](Status why) { damage_.push_back(std::move(why)); };
    return ClusterEvents::Open(*loop_, std::move(options)).value();
  }
  std::vector<Json> Lines() const {
    std::vector<Json> lines;
    const std::string text = ReadFile(temp_ / "events").value();
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines.push_back(ParseJson(ByteView(text).substr(at, end - at)).value());
      at = end + 1;
    }
    return lines;
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  TempDirectory temp_;
  std::vector<Status> damage_;
};

/// One of each kind.
void FeedAll(ClusterEvents& events) {
  const Status why(ErrorCode::kHostRefused, "refused");
  const auto tell = [&events](ClusterNote note) {
    events.OnEffect(cluster_effect::Note{std::move(note)}, At(2));
  };
  events.OnEffect(cluster_effect::LogIn{1}, At(1));
  events.OnFact(cluster_event::LoggedIn{1}, At(1));
  events.OnFact(event::Tick{}, At(1));
  events.OnFact(cluster_event::Done{1, {}}, At(1));
  events.OnEffect(cluster_effect::Run{1, {}}, At(1));
  events.OnEffect(cluster_effect::Say{"words"}, At(1));
  events.OnEffect(cluster_effect::ReportError{why}, At(1));
  events.OnEffect(cluster_effect::Ask{"Really?"}, At(1));
  events.OnFact(cluster_event::Answer{true}, At(1));
  events.OnEffect(cluster_effect::Finish{0}, At(1));
  tell(cluster_note::Waiting{1, why, seconds(3)});
  tell(cluster_note::Planned{{{.node = 1, .need = "create", .steps = 2, .is_ray_started = true}}});
  tell(
      cluster_note::StepStarted{1, {.kind = StepKind::kFiles, .command = "secret?", .hash = "aa"}});
  tell(cluster_note::StepDone{1, Step()});
  tell(cluster_note::RayStopped{1, 4});
  tell(cluster_note::RayStarted{1});
  tell(cluster_note::NodeUp{0, false});
  tell(cluster_note::NodeUp{1, true});
  tell(cluster_note::NodeEnded{1});
  tell(cluster_note::NodeFailed{1, why});
  events.OnSignal(SIGINT, At(3));
  events.OnEnd(125, why, At(4));
}

TEST_F(ClusterEventsTest, EveryEventAndItsKeysAreDocumentedAndNoOther) {
  FeedAll(*Open(temp_ / "events"));
  std::map<std::string, std::set<std::string>> written, documented;
  for (const Json& line : Lines()) {
    std::set<std::string> keys;
    for (const auto& [key, value] : line.items()) keys.insert(key);
    for (const char* common : {"time", "wall", "event"}) EXPECT_EQ(keys.erase(common), 1U);
    written[line["event"].get<std::string>()] = keys;
  }
  for (const DocRow& row : DocRows(kPage, "Events of up and down")) {
    for (const std::string& name : InBackticks(row.at(0))) {
      documented[name] = InBackticks(row.at(1));
    }
  }
  EXPECT_EQ(written, documented);
}

TEST_F(ClusterEventsTest, LinesHaveTheirTimesNodesAndValues) {
  FeedAll(*Open(temp_ / "events"));
  const std::vector<Json> lines = Lines();
  EXPECT_EQ(lines.front()["schema"], kClusterEventsSchema);
  EXPECT_EQ(lines.front()["time"], 0.0);
  EXPECT_EQ(lines.front()["nodes"][1], (Json{{"address", "b"}, {"role", "worker"}}));
  EXPECT_EQ(lines.back()["time"], 4.0);
  EXPECT_EQ(lines.back()["exit"]["error"]["code"], ErrorLabel(ErrorCode::kHostRefused));
  for (const Json& line : lines) {
    if (line["event"] == "step_started") {
      EXPECT_EQ(line["kind"], "file_mounts");
    }
    if (line["event"] == "step_done") {
      EXPECT_EQ(line["duration_s"], 2.0);
    }
    if (line["event"] == "node_kept") {
      EXPECT_EQ(line["node"], "a");
    }
    EXPECT_EQ(DumpJson(line).find("secret?"), std::string::npos) << "commands may hold secrets";
  }
  EXPECT_TRUE(damage_.empty());
}

TEST_F(ClusterEventsTest, AFullDiskIsToldOnceAndNothingThrows) {
  const auto events = Open("/dev/full");
  FeedAll(*events);
  ASSERT_EQ(damage_.size(), 1U);
  EXPECT_EQ(damage_[0].code(), ErrorCode::kOutputLost);
  EXPECT_NE(damage_[0].message().find("/dev/full"), std::string::npos);
}

TEST(ClusterReportTest, ThePageNamesTheSchemasInForce) {
  const std::string page = ReadFile(kPage).value();
  EXPECT_NE(page.find("`" + std::string(kClusterReportSchema) + "`"), std::string::npos);
  EXPECT_NE(page.find("`" + std::string(kClusterEventsSchema) + "`"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
