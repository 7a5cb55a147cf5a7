// The Ray jobs that --ray-mode jobs submits.
#include "cmd/ray/seat_requests.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

RayJobSeats TwoSeats() {
  return {.driver_ip = "10.0.0.1",
          .ports = {20001},
          .seats = {{"10.0.0.1", "aa", "10.0.0.1", 2, {{"CPU", 1.5}, {"GPU", 2}, {"disk", 3}}},
                    {"10.0.0.2", "bb", "10.0.0.2", 1, {{"CPU", 1}, {"memory", 2e9}}}}};
}

RayJobRequest Common() {
  return {.entrypoint = "of Python",
          .submission_id = "hvd-1",
          .working_dir = "gcs://large.zip",
          .py_modules = {"gcs://small.zip"},
          .env_vars = {{"A", "1"}},
          .metadata = {{"hvdray_job_id", "hvd-1"}}};
}

RayJob AsRayTells(const RayJobRequest& request) {
  RayJob job;
  job.submission_id = request.submission_id;
  job.metadata = request.metadata;
  return job;
}

TEST(SeatRequestsTest, EachSeatAsksForItsSharesOnItsNode) {
  RayJobRequest driver = Common();
  const auto requests = MakeSeatRequests(TwoSeats(), {.ray = "2.60.0"}, "aa", &driver);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].submission_id, "hvd-1-s0");
  EXPECT_NE(requests[0].entrypoint.find(" seat 0"), std::string::npos) << requests[0].entrypoint;
  EXPECT_EQ(requests[0].num_cpus, 1.5);
  EXPECT_EQ(requests[0].num_gpus, 2);
  EXPECT_EQ(requests[0].resources, (RayAmounts{{"disk", 3}}));
  EXPECT_EQ(requests[0].label_selector, (RayLabels{{"ray.io/node-id", "aa"}}));
  EXPECT_EQ(requests[1].submission_id, "hvd-1-s1");
  EXPECT_EQ(requests[1].memory_bytes, 2'000'000'000);
  EXPECT_TRUE(requests[1].resources.empty());
  for (const RayJobRequest& request : requests) {
    EXPECT_EQ(request.working_dir, "gcs://large.zip");
    EXPECT_EQ(request.py_modules, std::vector<std::string>{"gcs://small.zip"});
    EXPECT_EQ(request.env_vars, Common().env_vars);
    EXPECT_FALSE(request.metadata.contains("hvdray_job_id")) << "nobody follows a seat";
  }
}

TEST(SeatRequestsTest, TheDriverAsksForNothingButTheHead) {
  RayJobRequest driver = Common();
  (void)MakeSeatRequests(TwoSeats(), {.ray = "2.49.0"}, "aa", &driver);
  EXPECT_NE(driver.entrypoint.find("hvdray-agent"), std::string::npos);
  EXPECT_EQ(driver.num_cpus, 0);
  EXPECT_EQ(driver.label_selector, (RayLabels{{"ray.io/node-id", "aa"}}));
  EXPECT_EQ(driver.metadata.at("hvdray_job_id"), "hvd-1");
}

TEST(SeatRequestsTest, ARayWithoutSelectorsPinsToTheAddress) {
  RayJobRequest driver = Common();
  const auto requests = MakeSeatRequests(TwoSeats(), {.ray = "2.40.0"}, "aa", &driver);
  EXPECT_TRUE(driver.label_selector.empty());
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(requests[1].label_selector.empty());
  EXPECT_EQ(requests[1].resources, (RayAmounts{{"node:10.0.0.2", 0.001}}));
}

TEST(SeatRequestsTest, VersionsFromTwoFortyNineHaveSelectors) {
  for (const char* version : {"2.49.0", "2.60.0", "3.0.0.dev0", "2.100"}) {
    EXPECT_TRUE(HasLabelSelectors({.ray = version})) << version;
  }
  for (const char* version : {"2.48.9", "1.90", "2", "", "x"}) {
    EXPECT_FALSE(HasLabelSelectors({.ray = version})) << version;
  }
}

TEST(SeatRequestsTest, WhoeverFollowsKnowsTheShapeOfTheJob) {
  RayJobRequest driver = Common();
  EXPECT_EQ(ShapeOf(AsRayTells(driver)).seats, 0) << "a placement group";
  (void)MakeSeatRequests(TwoSeats(), {.ray = "2.60.0"}, "aa", &driver);
  const RayJobShape shape = ShapeOf(AsRayTells(driver));
  EXPECT_EQ(shape.seats, 2);
  EXPECT_EQ(shape.package, "gcs://large.zip");
}

TEST(SeatRequestsTest, ASecondStopIsAJobOnTheDriversNode) {
  RayJobRequest driver = Common();
  (void)MakeSeatRequests(TwoSeats(), {.ray = "2.60.0"}, "aa", &driver);
  const RayJobRequest hurry = MakeHurryRequest(AsRayTells(driver), "0f");
  EXPECT_EQ(hurry.submission_id, "hvd-1-now-0f");
  EXPECT_EQ(hurry.working_dir, "gcs://large.zip");
  EXPECT_NE(hurry.entrypoint.find("drive --hurry 'hvd-1'"), std::string::npos) << hurry.entrypoint;
  EXPECT_EQ(hurry.label_selector, (RayLabels{{"ray.io/node-id", "aa"}}));
  driver = Common();
  (void)MakeSeatRequests(TwoSeats(), {.ray = "2.40.0"}, "aa", &driver);
  EXPECT_TRUE(MakeHurryRequest(AsRayTells(driver), "0f").label_selector.empty()) << "it knows none";
}

}  // namespace
}  // namespace hvdray
