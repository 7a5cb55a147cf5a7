// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_job_file.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

RayJobFile Sample() {
  RayJobFile job;
  job.job_id = "hvd-20261122-043300-0011aabb";
  job.build = "hvdray 0.1.0 (abc)";
  job.key = std::string(64, 'a');
  job.can_grow = false;
  job.spec.np.Set(4, "flag -np");
  job.spec.command.Set({"python3", "train.py"}, "command line");
  job.environment.Set("NCCL_DEBUG", "INFO");
  job.environment.Set("ODD", "\xff\n\"");
  return job;
}

std::string WhyNot(const std::string& text) {
  const Result<RayJobFile> job = ParseRayJobFile(text);
  return job.ok() ? "taken" : job.status().message();
}

TEST(RayJobFileTest, WhatIsWrittenComesBack) {
  const RayJobFile job = Sample();
  const Result<RayJobFile> read = ParseRayJobFile(RayJobFileText(job));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->job_id, job.job_id);
  EXPECT_EQ(read->build, job.build);
  EXPECT_EQ(read->key, job.key);
  EXPECT_FALSE(read->can_grow);
  EXPECT_EQ(*read->spec.np, 4);
  EXPECT_EQ(*read->spec.command, *job.spec.command);
  EXPECT_EQ(read->environment.values(), job.environment.values());
}

TEST(RayJobFileTest, WhatAProxyAsksTheClientForStaysWithTheClient) {
  RayJobFile job = Sample();
  job.spec.ray.headers.Set(R"({"Authorization": "Basic geheim"})", "flag --ray-headers");
  const std::string text = RayJobFileText(job);
  EXPECT_EQ(text.find("geheim"), std::string::npos) << text;
  EXPECT_EQ(text.find("ray.headers"), std::string::npos) << text;
}

TEST(RayJobFileTest, AFileThatCannotBeTheClientsIsRefused) {
  EXPECT_EQ(WhyNot(""), "invalid JSON at byte 1");
  EXPECT_EQ(WhyNot("[]"), "must be an object");
  EXPECT_EQ(WhyNot("{}"), "job_id must be a string that is not empty");
  EXPECT_EQ(WhyNot(R"({"job_id":"j","key":"abc"})"), "key must be 64 hex digits");
  RayJobFile job = Sample();
  job.key[3] = 'G';
  EXPECT_EQ(WhyNot(RayJobFileText(job)), "key must be 64 hex digits");
  const std::string begin = R"({"job_id":"j","key":")" + std::string(64, '0') + "\"";
  EXPECT_EQ(WhyNot(begin + "}"), "options is missing");
  EXPECT_EQ(WhyNot(begin + R"(,"options":{}})"),
            "options that '' wrote: the settings are not hvdray.spec/1");
  EXPECT_EQ(WhyNot(begin + R"(,"options":{"schema":"hvdray.spec/1"},"environment":{"A":"b"}})"),
            "environment must be a list");
  EXPECT_EQ(WhyNot(begin + R"(,"options":{"schema":"hvdray.spec/1"},"of_tomorrow":1})"), "taken");
}

TEST(RayJobFileTest, OfTheClientsEnvironmentGoesWhatIsOfTheJob) {
  JobSpec spec;
  spec.env.Set({"WANTED", "SET=1", "MISSING"}, "flag -x");
  const Environment client({{"HOROVOD_CYCLE_TIME", "1"},
                            {"NCCL_DEBUG", "INFO"},
                            {"PATH", "/usr/bin"},
                            {"RAY_AUTH_TOKEN", "secret"},
                            {"SET", "other"},
                            {"WANTED", "w"}});
  EXPECT_EQ(EnvironmentForRay(spec, client).ToStrings(),
            (std::vector<std::string>{"HOROVOD_CYCLE_TIME=1", "NCCL_DEBUG=INFO", "WANTED=w"}));
}

}  // namespace
}  // namespace hvdray
