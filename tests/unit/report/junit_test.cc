#include "launcher/report/junit.h"

#include <gtest/gtest.h>

#include "tests/fakes/golden.h"
#include "tests/unit/report/sample_job.h"

namespace hvdray {
namespace {

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
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
  EXPECT_TRUE(Has(xml, "the job succeeded without it: exited with code 7")) << xml;
  EXPECT_TRUE(Has(xml, "the job succeeded without it: lost with its agent")) << xml;
}

TEST(JunitTest, AJobWithoutWorkersIsValid) {
  const std::string xml = ToJunitXml(JobReport());
  EXPECT_TRUE(Has(xml, R"(tests="0")")) << xml;
}

TEST(WriteJunitTest, AFullDiskIsOutputLost) {
  const Status status = WriteJunit("/dev/full", FullReport());
  EXPECT_EQ(status.code(), ErrorCode::kOutputLost);
  EXPECT_TRUE(status.message().starts_with("--junit: /dev/full")) << status.message();
}

}  // namespace
}  // namespace hvdray
