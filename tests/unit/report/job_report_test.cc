// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/job_report.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/golden.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/report/sample_elastic.h"

namespace hvdray {
namespace {

TEST(JobReportTest, AFailedJobIsToldWhole) {
  ExpectGolden("tests/golden/report/report_failed.json", DumpJson(ToJson(FullReport()), 2) + "\n");
}

TEST(JobReportTest, ASuccessHasNoErrorAndNoFirstFailure) {
  JobReport report = FullReport();
  report.verdict = GoodVerdict();
  const Json json = ToJson(report);
  EXPECT_EQ(DumpJson(json["exit"]),
            R"({"code":0,"origin":"hvdray","error":null,"more_errors":[]})");
  EXPECT_TRUE(json["first_failure"].is_null());
  EXPECT_EQ(json["workers"][3]["state"], "succeeded");
  EXPECT_EQ(json["duration_s"], 12.5);
}

TEST(JobReportTest, AnElasticJobHasATableOfItsGenerations) {
  JobReport report = FullReport();
  EXPECT_FALSE(ToJson(report).contains("memberships"));
  report.memberships = ElasticMemberships();
  const Json json = ToJson(report);
  EXPECT_EQ(json["stood_still_s"], 0.35);
  ASSERT_EQ(json["memberships"].size(), 3u);
  EXPECT_EQ(
      DumpJson(json["memberships"][2]),
      R"({"generation":3,"size":2,"began_s":3.25,"stood_still_s":0.25,"counted":true,)"
      R"("changes":[{"host":"b","workers":-1,"why":"rank 1 on host b was killed by SIGKILL"}],)"
      R"("connections_shut":5,"connections_refused":1,"break_s":0.0015})");
}

TEST(JobReportTest, AJobThatNeverStartedStillHasAllKeys) {
  const Json empty = ToJson(JobReport());
  const Json full = ToJson(FullReport());
  for (const auto& [key, value] : full.items()) EXPECT_TRUE(empty.contains(key)) << key;
  EXPECT_TRUE(empty["workers"].is_array());
  EXPECT_TRUE(empty["rendezvous"]["scopes"].is_array());
}

TEST(JobReportTest, BytesThatAreNoTextStillGiveValidJson) {
  const Result<Json> back = ParseJson(DumpJson(ToJson(FullReport()), 2));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ((*back)["command"][3], "caf\xc3\xa9 \xef\xbf\xbd");
}

TEST(OutcomeTest, EachWorkerHasOneWord) {
  Verdict verdict;
  verdict.first_failure = SampleWorker(9, "node9", Exited(1), 1);
  const auto word = [&verdict](const WorkerRecord& worker) {
    return std::string(OutcomeName(ToOutcome(worker, verdict)));
  };
  WorkerRecord worker;
  EXPECT_EQ(word(worker), "not_started");
  worker.pid = 7;
  EXPECT_EQ(word(worker), "lost");
  worker.status = Exited(1);
  EXPECT_EQ(word(worker), "failed");
  worker.is_victim = true;
  EXPECT_EQ(word(worker), "stopped");
  worker.status = Exited(0);
  EXPECT_EQ(word(worker), "succeeded");
  WorkerRecord never_ran;
  never_ran.status = wire::ExitStatus{.stage = wire::ExecStage::kFork, .error = EAGAIN};
  EXPECT_EQ(word(never_ran), "failed");
}

TEST(OutcomeTest, WithoutAFirstFailureWorkersWereStoppedFromOutside) {
  const WorkerRecord worker = SampleWorker(0, "node1", Killed(SIGTERM), 1);
  EXPECT_EQ(ToOutcome(worker, Verdict()), WorkerOutcome::kStopped);
}

TEST(WriteJobReportTest, ReplacesAFileWhole) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "r.json", std::string(100'000, 'x')).ok());
  ASSERT_TRUE(WriteJobReport(temp / "r.json", FullReport()).ok());
  EXPECT_EQ(ReadFile(temp / "r.json").value(), DumpJson(ToJson(FullReport()), 2) + "\n");
}

TEST(WriteJobReportTest, WhatCannotBeWrittenIsOutputLost) {
  const Status status = WriteJobReport("/dev/full", FullReport());
  ExpectFault("/dev/full", status, ErrorCode::kOutputLost, "--report: /dev/full");
  EXPECT_EQ(WriteJobReport("/nowhere/at/all", FullReport()).code(), ErrorCode::kOutputLost);
}

}  // namespace
}  // namespace hvdray
