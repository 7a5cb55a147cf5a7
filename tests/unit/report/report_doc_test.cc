// SPDX-License-Identifier: Apache-2.0
// docs/report.md lists exactly the written keys.
#include <gtest/gtest.h>

#include <map>

#include "base/fd.h"
#include "launcher/report/event_log.h"
#include "launcher/report/job_report.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/report/doc_tables.h"
#include "tests/unit/report/sample_elastic.h"
#include "tests/unit/report/sample_events.h"

namespace hvdray {
namespace {

constexpr const char* kPage = "docs/report.md";

// "hosts[].name" for each value that is not an object or a list of objects.
void Flatten(const Json& json, const std::string& path, std::set<std::string>& keys) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      Flatten(value, path.empty() ? key : path + "." + key, keys);
    }
  } else if (json.is_array() && !json.empty() && path != "command") {
    for (const Json& element : json) Flatten(element, path + "[]", keys);
  } else {
    keys.insert(path);
  }
}

TEST(ReportDocTest, EveryKeyOfTheReportIsDocumentedAndNoOther) {
  std::set<std::string> written;
  JobReport report = FullReport();
  report.memberships = ElasticMemberships();
  Flatten(ToJson(report), "", written);
  std::set<std::string> documented;
  for (const DocRow& row : DocRows(kPage, "Report")) {
    documented.merge(InBackticks(row.at(0)));
  }
  // Described in prose there: an object that may be null, and one with the keys of workers[].
  EXPECT_EQ(documented.erase("exit.error"), 1u);
  EXPECT_EQ(documented.erase("first_failure"), 1u);
  EXPECT_EQ(documented.erase("earlier_failures[]"), 1u);
  const std::string first = "first_failure.";
  for (const std::string& key : std::set<std::string>(documented)) {
    if (key.starts_with("workers[].")) documented.insert(first + key.substr(10));
  }
  for (const std::string& key : std::set<std::string>(documented)) {
    // Only the final failure has these.
    if (key == first + "certain" || key == first + "evidence") continue;
    if (key.starts_with(first)) documented.insert("earlier_failures[]." + key.substr(first.size()));
  }
  EXPECT_EQ(written, documented);
}

using KeysOfEvents = std::map<std::string, std::set<std::string>>;

// The keys of each event that a log writes for `feed`.
template <typename Feeder>
KeysOfEvents Written(std::vector<std::string> hosts, Feeder feed) {
  const TempDirectory temp;
  const std::unique_ptr<Loop> loop = Loop::Create().value();
  EventLogOptions options;
  options.path = temp / "events";
  options.hosts = std::move(hosts);
  options.began = At(0);
  auto log = EventLog::Open(*loop, options).value();
  feed(*log);
  KeysOfEvents written;
  const std::string text = ReadFile(options.path).value();
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const Result<Json> line = ParseJson(ByteView(text).substr(at, end - at));
    EXPECT_TRUE(line.ok());
    if (!line.ok()) break;
    std::set<std::string> keys;
    for (const auto& [key, value] : line->items()) keys.insert(key);
    for (const char* common : {"time", "wall", "event"}) EXPECT_EQ(keys.erase(common), 1u);
    written[(*line)["event"].get<std::string>()] = keys;
    at = end + 1;
  }
  return written;
}

KeysOfEvents Documented(const std::string& heading) {
  KeysOfEvents documented;
  for (const DocRow& row : DocRows(kPage, heading)) {
    for (const std::string& name : InBackticks(row.at(0)))
      documented[name] = InBackticks(row.at(1));
  }
  return documented;
}

void FeedWarmed(EventLog& log) {
  wire::Warmed warmed;
  warmed.is_warm = true;
  warmed.modules = {"numpy"};
  log.OnWarmed("node1", 1, warmed, At(0.2));
}

TEST(ReportDocTest, EveryEventAndItsKeysAreDocumentedAndNoOther) {
  const KeysOfEvents written = Written({"node1", "node2"}, [](EventLog& log) {
    Feed(log);
    FeedWarmed(log);
  });
  EXPECT_EQ(written, Documented("Events"));
}

TEST(ReportDocTest, EveryEventOfAnElasticJobIsDocumentedAndNoOther) {
  KeysOfEvents documented = Documented("Events of an elastic job");
  EXPECT_EQ(documented.count("membership"), 1u);
  documented.merge(Documented("Events"));
  const KeysOfEvents written = Written({}, [](EventLog& log) {
    FeedElastic(log);
    FeedWarmed(log);
  });
  EXPECT_EQ(written, documented);
}

TEST(ReportDocTest, ThePageNamesTheSchemasInForce) {
  const std::string page = ReadFile(kPage).value();
  EXPECT_NE(page.find("`" + std::string(kReportSchema) + "`"), std::string::npos);
  EXPECT_NE(page.find("`" + std::string(kEventsSchema) + "`"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
