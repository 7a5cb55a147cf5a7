// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <string>
#include <utility>

#include "launcher/report/job_report.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/golden.h"
#include "tests/unit/report/sample_job.h"

namespace hvdray {
namespace {

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> SkipReasons(const std::string& xml) {
  pugi::xml_document reader;
  EXPECT_TRUE(reader.load_string(xml.c_str()));
  std::vector<std::string> reasons;
  for (const auto& skipped : reader.select_nodes("//skipped")) {
    reasons.emplace_back(skipped.node().attribute("message").value());
  }
  return reasons;
}

TEST(JunitTest, TheFirstFailureFailsAndItsVictimsAreSkipped) {
  ExpectGolden("tests/golden/report/junit_failed.xml", ToJunitXml(FullReport()));
}

TEST(JunitTest, SuccessHasNoFailures) {
  JobReport report = FullReport();
  report.verdict = GoodVerdict();
  const std::string xml = ToJunitXml(report);
  EXPECT_TRUE(Has(xml, R"(tests="4" failures="0" errors="0" skipped="0")")) << xml;
  EXPECT_FALSE(Has(xml, "<failure"));
}

TEST(JunitTest, AnErrorOfOursIsACaseOfItsOwn) {
  JobReport report = FullReport();
  Verdict& verdict = report.verdict;
  verdict.first_failure.reset();
  verdict.origin = ExitOrigin::kHvdray;
  verdict.error = Status(ErrorCode::kAgentLost, "host node2: <gone>");
  verdict.workers[2].status.reset();
  verdict.workers[3] = WorkerRecord{.rank = 3, .host = "node2"};
  const std::string xml = ToJunitXml(report);
  EXPECT_TRUE(Has(xml, R"(tests="5" failures="1" errors="1" skipped="3")")) << xml;
  EXPECT_TRUE(Has(xml, R"(type="HVD-E0205")")) << xml;
  EXPECT_TRUE(Has(xml, "host node2: &lt;gone&gt;")) << xml;
  EXPECT_TRUE(Has(xml, "never started")) << xml;
  EXPECT_TRUE(Has(xml, "lost with the agent")) << xml;
}

TEST(JunitTest, AWorkerThatFailedInAJobThatSucceededIsSkipped) {
  JobReport report = FullReport();
  report.verdict.error = Status();
  report.verdict.exit_code = 0;
  report.verdict.workers[0].status = Exited(0);
  report.verdict.workers[3].status.reset();
  const std::string xml = ToJunitXml(report);
  EXPECT_TRUE(Has(xml, R"(tests="4" failures="0" errors="0" skipped="3")")) << xml;
  ExpectSaid(SkipReasons(xml), {"succeeded without it", "code 7"});
  ExpectSaid(SkipReasons(xml), {"succeeded without it", "lost", "agent"});
}

TEST(JunitTest, AJobWithoutWorkersIsValid) {
  const std::string xml = ToJunitXml(JobReport());
  EXPECT_TRUE(Has(xml, R"(tests="0")")) << xml;
}

/// What an XML reader gets for the last lines of the worker that failed first.
std::string ReadBack(const std::string& line) {
  JobReport report = FullReport();
  report.last_lines = {line};
  pugi::xml_document reader;
  const pugi::xml_parse_result parsed = reader.load_string(ToJunitXml(report).c_str());
  EXPECT_TRUE(parsed) << parsed.description();
  const std::string text =
      reader.select_node("//failure[@type='first_failure']").node().text().get();
  return text.substr(0, text.rfind('\n'));
}

TEST(JunitTest, LastLinesComeBackFromAReader) {
  for (const std::string line :
       {"plain", "tab\there", "\xC3\xBC \xE2\x98\x83 \xF0\x9F\x98\x80", "&amp; &#65; <x/>", "]]>",
        "'\"", "</failure> <!--", "\xEF\xBF\xBD"}) {
    EXPECT_EQ(ReadBack(line), line);
  }
}

TEST(JunitTest, EachByteWithoutAPlaceInXmlIsReplaced) {
  using std::string_literals::operator""s;
  const std::string r = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> table[] = {
      {"a\0b"s, "a" + r + "b"},
      {"\x01\x08\x0b\x0c\x0e\x1f", r + r + r + r + r + r},
      {"\x1b[31mred\x1b[0m", r + "[31mred" + r + "[0m"},
      {"\xff\xfe", r + r},
      {"cut \xe2\x98", "cut " + r + r},
      {"\xed\xa0\x80", r + r + r},
      {"\xef\xbf\xbe \xef\xbf\xbf", r + " " + r},
      {"\xc0\xaf", r + r},
  };
  for (const auto& [bytes, wanted] : table) EXPECT_EQ(ReadBack(bytes), wanted);
}

TEST(WriteJunitTest, AFullDiskIsOutputLost) {
  const Status status = WriteJunit("/dev/full", FullReport());
  EXPECT_EQ(status.code(), ErrorCode::kOutputLost);
  EXPECT_TRUE(status.message().starts_with("--junit: /dev/full")) << status.message();
}

}  // namespace
}  // namespace hvdray
