// SPDX-License-Identifier: Apache-2.0
// Hosts that a job learns of one by one: by which way each is reached.
#include "launcher/plan/host_access.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

/// Says which host it was called for, and fails.
constexpr const char* kTellingCommand = "echo told {host} >&2; exit 3; :";

class ElasticAccess {
 public:
  // Any program that copies its input will do as an agent here.
  explicit ElasticAccess(const JobSpec& spec, const std::string& agent = "/bin/cat") {
    Result<std::unique_ptr<HostAccess>> opened =
        HostAccess::OpenElastic(*loop_, spec, agent, HostSpread::kOneMachine);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    access_ = std::move(opened).value();
  }
  HostAccess* operator->() { return access_.get(); }

  /// How the start of an agent ended.
  Status StatusOfStart(const std::string& host) {
    std::optional<Status> seen;
    access_->Start(host, [&](Result<AgentStart> start) { seen = std::move(start).status(); });
    EXPECT_FALSE(seen.has_value()) << "the answer must not come from within Start()";
    EXPECT_TRUE(RunUntil(*loop_, [&] { return seen.has_value(); }));
    return seen.value_or(Status());
  }

 private:
  std::unique_ptr<Loop> loop_ = std::move(*Loop::Create());
  std::unique_ptr<HostAccess> access_;
};

JobSpec SpecOfCommand() {
  JobSpec spec;
  spec.launch_agent.Set(kTellingCommand, "test");
  return spec;
}

TEST(HostWayTest, ALoginOrTheUserMakesThisMachineRemoteAndAPortMakesItAnother) {
  const JobSpec spec;
  HostWay way = WayTo({"localhost", 1}, /*is_this_machine=*/true, spec);
  EXPECT_FALSE(way.is_remote || way.is_elsewhere);
  way = WayTo({"localhost", 1, {.user = "u"}}, true, spec);
  EXPECT_TRUE(way.is_remote && !way.is_elsewhere);
  way = WayTo({"localhost", 1, {.port = 2222}}, true, spec);
  EXPECT_TRUE(way.is_remote && way.is_elsewhere);
  way = WayTo({"10.0.0.1", 1, {.host_key_alias = "i-1"}}, true, spec);
  EXPECT_TRUE(way.is_remote && way.is_elsewhere) << "a cloud's machine with our address";
  way = WayTo({"a", 1}, false, spec);
  EXPECT_TRUE(way.is_remote && way.is_elsewhere);
  JobSpec forced;
  forced.is_remote_forced.Set(true, "test");
  way = WayTo({"localhost", 1}, true, forced);
  EXPECT_TRUE(way.is_remote && !way.is_elsewhere);
}

TEST(HostAccessTest, AHostOfThisMachineGetsAChildProcess) {
  ElasticAccess access{JobSpec()};
  access->AddHost({"localhost", 1});
  EXPECT_FALSE(access->IsRemote("localhost") || access->IsElsewhere("localhost"));
  EXPECT_TRUE(access.StatusOfStart("localhost").ok());
}

TEST(HostAccessTest, AHostThatIsAddedLaterIsDialledAsItsAddressSays) {
  ElasticAccess access(SpecOfCommand());
  access->AddHost({"localhost", 1});
  EXPECT_TRUE(access.StatusOfStart("localhost").ok());
  access->AddHost({"pod-1", 1, {.name = "pod-1.cluster"}});
  EXPECT_TRUE(access->IsRemote("pod-1") && access->IsElsewhere("pod-1"));
  const Status status = access.StatusOfStart("pod-1");
  EXPECT_NE(status.message().find("told pod-1.cluster"), std::string::npos) << status.ToString();
}

TEST(HostAccessTest, AHostThatComesBackWithAnotherAddressIsDialledThere) {
  ElasticAccess access(SpecOfCommand());
  access->AddHost({"a", 1, {.name = "old"}});
  EXPECT_NE(access.StatusOfStart("a").message().find("told old"), std::string::npos);
  access->AddHost({"a", 4, {.name = "new"}});
  EXPECT_NE(access.StatusOfStart("a").message().find("told new"), std::string::npos);
}

TEST(HostAccessTest, AStartWaitsUntilTheNameHasBeenLookedUp) {
  JobSpec spec;
  spec.ssh_transport.Set(SshTransport::kLibssh2, "test");
  ElasticAccess access(spec);
  access->AddHost({"no-such-host.invalid", 1});
  EXPECT_TRUE(access->IsRemote("no-such-host.invalid")) << "nothing is known of it yet";
  const Status status = access.StatusOfStart("no-such-host.invalid");
  EXPECT_EQ(status.code(), ErrorCode::kUnknownHost) << status.ToString();
  EXPECT_TRUE(access->IsElsewhere("no-such-host.invalid"));
}

TEST(HostAccessTest, WhatIsWrongWithOneHostIsSaidAtItsStart) {
  ElasticAccess access(SpecOfCommand());
  access->AddHost({"a", 1, {.user = "u"}});
  const Status status = access.StatusOfStart("a");
  EXPECT_EQ(status.code(), ErrorCode::kSpecInvalid);
  EXPECT_NE(status.message().find("--launch-agent"), std::string::npos) << status.ToString();
  access->AddHost({"localhost", 1});
  EXPECT_TRUE(access.StatusOfStart("localhost").ok()) << "the others are not harmed";
}

TEST(HostAccessTest, AnAgentThatCannotBeCopiedIsSaidAtTheStartOfAHostThatNeedsIt) {
  ElasticAccess access(SpecOfCommand(), "/no/such/agent");
  access->AddHost({"a", 1});
  EXPECT_EQ(access.StatusOfStart("a").code(), ErrorCode::kFileUnreadable);
}

TEST(HostAccessTest, AnAccessThatEndsBeforeItsAnswerGivesNone) {
  auto loop = std::move(*Loop::Create());
  bool is_answered = false;
  {
    auto access = std::move(*HostAccess::OpenElastic(*loop, SpecOfCommand(), "/no/such/agent",
                                                     HostSpread::kManyMachines));
    access->AddHost({"a", 1});
    access->Start("a", [&](const Result<AgentStart>&) { is_answered = true; });
  }
  Settle(*loop);
  EXPECT_FALSE(is_answered);
}

}  // namespace
}  // namespace hvdray
