// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/dashboard_client.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <string>

#include "tests/fakes/scripted_server.h"

namespace hvdray {
namespace {

class DashboardClientTest : public testing::Test {
 protected:
  DashboardClientTest() { ::signal(SIGPIPE, SIG_IGN); }

  static RayAccess To(const ScriptedServer& server) {
    RayAccess access;
    access.address.host = "127.0.0.1";
    access.address.port = server.port();
    access.address.prefix = "/team";
    access.token = {Secret("geheim-0123"), "RAY_AUTH_TOKEN"};
    return access;
  }
};

TEST_F(DashboardClientTest, AnUnknownPackageOrJobIsAnAnswerAndNoError) {
  ScriptedServer server(
      {{.answers = {ScriptedServer::Answer(404, "Package gcs://a.zip does not exist"),
                    ScriptedServer::Answer(404, "Job nope does not exist"),
                    ScriptedServer::Answer(404, "404: Not Found")}}});
  DashboardClient client(To(server));
  const auto package = client.HasPackage("a b.zip");
  ASSERT_TRUE(package.ok()) << package.status().ToString();
  EXPECT_FALSE(*package);
  const auto job = client.GetJob("nope/../x");
  ASSERT_TRUE(job.ok());
  EXPECT_FALSE(job->has_value());
  EXPECT_FALSE(client.GetJob("nope").ok());
  const auto& requests = server.Stop();
  EXPECT_TRUE(requests[0].starts_with("GET /team/api/packages/gcs/a%20b.zip HTTP/1.1\r\n"));
  EXPECT_TRUE(requests[1].starts_with("GET /team/api/jobs/nope%2F..%2Fx HTTP/1.1\r\n"));
}

TEST_F(DashboardClientTest, AJobIsSubmittedAsJson) {
  ScriptedServer server(
      {{.answers = {ScriptedServer::Answer(200, R"({"job_id": "X", "submission_id": "X"})")}}});
  DashboardClient client(To(server));
  const auto id = client.Submit({.entrypoint = "true"});
  ASSERT_TRUE(id.ok()) << id.status().ToString();
  EXPECT_EQ(*id, "X");
  const std::string request = server.Stop().at(0);
  EXPECT_TRUE(request.starts_with("POST /team/api/jobs/ HTTP/1.1\r\n"));
  EXPECT_NE(request.find("Content-Type: application/json\r\n"), std::string::npos);
  EXPECT_NE(request.find("Authorization: Bearer geheim-0123\r\n"), std::string::npos);
  EXPECT_TRUE(request.ends_with("\r\n\r\n{\"entrypoint\":\"true\"}"));
}

TEST_F(DashboardClientTest, WhatTheServerSaysOfTheTokenIsMasked) {
  ScriptedServer server(
      {{.answers = {
            ScriptedServer::Answer(200, R"({"status": "FAILED", "message": "geheim-0123!"})"),
            ScriptedServer::Answer(500, "boom geheim-0123")}}});
  DashboardClient client(To(server));
  const auto job = client.GetJob("a");
  ASSERT_TRUE(job.ok() && job->has_value());
  EXPECT_EQ((*job)->message, "<token>!");
  const Status status = client.GetJob("a").status();
  EXPECT_NE(status.message().find("boom <token>"), std::string::npos) << status.ToString();
}

TEST_F(DashboardClientTest, AProxyThatTakesLessThanRaySaysSo) {
  ScriptedServer server({{.answers = {ScriptedServer::Answer(413, "too large")}}});
  DashboardClient client(To(server));
  EXPECT_EQ(client.PutPackage("a.zip", std::string(1000, 'x')).code(), ErrorCode::kPackageTooLarge);
}

TEST_F(DashboardClientTest, AFileWithoutAByteIsAsGoodAsNone) {
  ScriptedServer server(
      {{.answers = {ScriptedServer::Answer(200, ""), ScriptedServer::Answer(200, "bytes")}}});
  DashboardClient client(To(server));
  std::string read;
  const auto take = [&read](ByteView piece) {
    read += piece;
    return true;
  };
  EXPECT_EQ(client.ReadLog("f5", "a", take).code(), ErrorCode::kRayFailed);
  EXPECT_TRUE(client.ReadLog("f5", "a", take).ok());
  EXPECT_EQ(read, "bytes");
}

TEST_F(DashboardClientTest, AJobsLogIsReadFromItsNodeAndElseFromTheJobsApi) {
  const std::string logs = ScriptedServer::Answer(200, R"({"logs": "one\ntwo\nthree"})");
  ScriptedServer server(
      {{.answers = {ScriptedServer::Answer(200, "raw \xff"), ScriptedServer::Answer(200, ""), logs,
                    logs, logs, ScriptedServer::Answer(200, R"({"logs": 3})")}}});
  DashboardClient client(To(server));
  const auto read = [&client](const std::string& node, std::optional<int64_t> lines = {}) {
    std::string text;
    const Status status = client.ReadJobLog(
        {.submission_id = "a b", .driver_node_id = node},
        [&text](ByteView piece) {
          text += piece;
          return true;
        },
        lines);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return text;
  };
  EXPECT_EQ(read("f5"), "raw \xff");
  EXPECT_EQ(read("f5"), "one\ntwo\nthree") << "the file gave nothing";
  EXPECT_EQ(read("", 2), "two\nthree");
  EXPECT_EQ(read("", 0), "");
  const Status wrong =
      client.ReadJobLog({.submission_id = "x"}, [](ByteView /*piece*/) { return true; });
  EXPECT_FALSE(wrong.ok());
  const auto& requests = server.Stop();
  EXPECT_NE(requests[0].find("node_id=f5&filename=job-driver-a%20b.log&lines=-1"),
            std::string::npos);
  EXPECT_TRUE(requests[2].starts_with("GET /team/api/jobs/a%20b/logs HTTP/1.1\r\n"));
  EXPECT_TRUE(requests[3].starts_with("GET /team/api/jobs/a%20b/logs HTTP/1.1\r\n"));
}

TEST_F(DashboardClientTest, ACopyOfTheAccessHasItsOwnToken) {
  ScriptedServer server({});
  const RayAccess access = To(server);
  const RayAccess copy = access.Copy();
  EXPECT_EQ(copy.token.text.view(), "geheim-0123");
  EXPECT_EQ(copy.address.Url(), access.address.Url());
}

}  // namespace
}  // namespace hvdray
