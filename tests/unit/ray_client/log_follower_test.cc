// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <thread>

#include "cluster/ray/dashboard_client.h"
#include "tests/fakes/scripted_server.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

class LogFollowerTest : public testing::Test {
 protected:
  LogFollowerTest() { ::signal(SIGPIPE, SIG_IGN); }

  static RayAccess To(const ScriptedServer& server) {
    RayAccess access;
    access.address.host = "127.0.0.1";
    access.address.port = server.port();
    return access;
  }
  static RayLogFollower::Options Of(uint64_t offset) {
    return {.node_id = "f5", .file_name = "hvdray 1.stream", .offset = offset, .first_pause = 1ms};
  }

  /// Follows until so many bytes are there; counts the pauses.
  std::string FollowUntil(RayLogFollower& follower, size_t bytes) {
    std::string taken;
    const Status ended = follower.Follow({.take =
                                              [&](ByteView piece) {
                                                taken += piece;
                                                return taken.size() < bytes;
                                              },
                                          .on_pause = [&](const Status&) { ++pauses_; }});
    EXPECT_TRUE(ended.ok()) << ended.ToString();
    return taken;
  }

  int pauses_ = 0;
};

TEST_F(LogFollowerTest, AfterACutNoByteComesTwiceAndNoneIsLost) {
  ScriptedServer server({
      {.answers = {ScriptedServer::Pieces("abc") + ScriptedServer::Chunk("de")}},
      {.answers = {ScriptedServer::Answer(502, "")}},
      {.answers = {ScriptedServer::Pieces("ab") + ScriptedServer::Chunk("cd") + "0\r\n\r\n"}},
      {.answers = {ScriptedServer::Pieces("abcdef") +
                   ScriptedServer::Chunk(std::string("\xff\0", 2))},
       .is_held = true},
  });
  RayLogFollower follower(To(server), Of(0));
  EXPECT_EQ(FollowUntil(follower, 8), std::string("abcdef\xff\0", 8));
  EXPECT_EQ(follower.offset(), 8U);
  EXPECT_EQ(pauses_, 3);
  for (const std::string& request : server.Stop()) {
    EXPECT_TRUE(
        request.starts_with("GET /api/v0/logs/stream?node_id=f5&filename=hvdray%201.stream"
                            "&lines=-1&format=text&interval=0.2 HTTP/1.1\r\n"))
        << request;
  }
}

TEST_F(LogFollowerTest, WhatTheCallerHasIsSkipped) {
  ScriptedServer server({{.answers = {ScriptedServer::Pieces("abcdef")}, .is_held = true}});
  RayLogFollower follower(To(server), Of(4));
  EXPECT_EQ(FollowUntil(follower, 2), "ef");
  EXPECT_EQ(follower.offset(), 6U);
}

TEST_F(LogFollowerTest, AFileThatIsNotThereYetIsAskedForAgain) {
  const std::string missing = ScriptedServer::Answer(500, "A file is not found at: /x");
  ScriptedServer server(
      {{.answers = {missing, missing, ScriptedServer::Pieces("a")}, .is_held = true}});
  RayLogFollower follower(To(server), Of(0));
  EXPECT_EQ(FollowUntil(follower, 1), "a");
  EXPECT_EQ(pauses_, 2);
}

TEST_F(LogFollowerTest, WhatAnOlderRaySaysWithinAStreamIsNotTakenForTheFile) {
  const std::string fault = "[get_logs] Fetch log error: A file is not found at: /x";
  ScriptedServer server({
      {.answers = {ScriptedServer::Pieces(fault) + "0\r\n\r\n"}},
      {.answers = {ScriptedServer::Pieces("a") + ScriptedServer::Chunk(fault) + "0\r\n\r\n"}},
      {.answers = {ScriptedServer::Pieces("a" + fault) + ScriptedServer::Chunk(fault) +
                   ScriptedServer::Chunk("b")},
       .is_held = true},
  });
  RayLogFollower follower(To(server), Of(0));
  EXPECT_EQ(FollowUntil(follower, 2 + 2 * fault.size()), "a" + fault + fault + "b");
  EXPECT_EQ(pauses_, 2);
}

TEST_F(LogFollowerTest, WhoIsNotLetInStopsAtOnce) {
  ScriptedServer server({{.answers = {ScriptedServer::Answer(403, "Forbidden")}}});
  RayLogFollower follower(To(server), Of(0));
  const Status ended = follower.Follow({.take = [](ByteView) { return true; }});
  EXPECT_EQ(ended.code(), ErrorCode::kRayDenied);
}

TEST_F(LogFollowerTest, CancelEndsThePauseAndTheStream) {
  {
    ScriptedServer server({{.answers = {ScriptedServer::Answer(500, "no")}}});
    RayLogFollower::Options options = Of(0);
    options.first_pause = 1h;
    options.longest_pause = 1h;
    RayLogFollower follower(To(server), options);
    const Status ended = follower.Follow({.take = [](ByteView) { return true; },
                                          .on_pause = [&](const Status&) { follower.Cancel(); }});
    EXPECT_EQ(ended.code(), ErrorCode::kCancelled);
  }
  ScriptedServer server({{.answers = {ScriptedServer::Pieces("a")}, .is_held = true}});
  RayLogFollower follower(To(server), Of(0));
  const Status ended = follower.Follow({.take = [&](ByteView) {
    follower.Cancel();
    return true;
  }});
  EXPECT_EQ(ended.code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace hvdray
