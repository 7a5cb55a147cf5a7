// SPDX-License-Identifier: Apache-2.0
// The node script in a real shell with a home of its own, and what its answers mean.
#include "cluster/up/node_script.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/digest.h"
#include "tests/fakes/scripted_server.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

std::string Quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// When the process started, as /proc has it.
std::string BeganAt(pid_t pid) {
  const std::string stat = ReadAll(fmt::format("/proc/{}/stat", pid));
  std::stringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string began;
  for (int i = 0; i < 20; ++i) fields >> began;
  return began;
}

class NodeScriptTest : public ::testing::Test {
 protected:
  NodeScriptTest() {
    place_.cluster = "test-" + Hex(RandomBytes(6));  // no other test's processes
    place_.node = "10.0.0.1";
    place_.shell = ShellKind::kPlain;
  }

  struct Answer {
    int exit_code = 0;
    std::string output;
  };
  Answer Call(const std::string& verb, const std::vector<std::string>& arguments = {},
              const std::string& input = "") {
    std::string line = "printf %s " + Quoted(input) + " | HOME=" + Quoted(home()) + " env";
    if (fs::exists(home() + "/bin")) line += " PATH=" + Quoted(home() + "/bin:/usr/bin:/bin");
    for (const std::string& word : ScriptCommand(place_, verb, arguments)) {
      line += ' ' + Quoted(word);
    }
    Answer answer;
    FILE* pipe = ::popen((line + " 2>&1").c_str(), "r");
    char buffer[4096];
    for (size_t n = 0; (n = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
      answer.output.append(buffer, n);
    }
    answer.exit_code = WEXITSTATUS(::pclose(pipe));
    return answer;
  }
  NodeSurvey Survey() {
    const Answer answer = Call("survey");
    EXPECT_EQ(answer.exit_code, 0) << answer.output;
    return ParseSurvey(answer.output);
  }
  /// Of a process that is no child of ours.
  void WaitForEnd(int pid) {
    while (ReadAll(fmt::format("/proc/{}/cmdline", pid)).find(home()) != std::string::npos) {
      Survey();
    }
  }
  /// On the PATH of the script: notes its call, then does `body`.
  void MakeCommand(const std::string& name, const std::string& body) {
    fs::create_directories(home() + "/bin");
    const std::string path = home() + "/bin/" + name;
    std::ofstream(path) << "#!/bin/sh\necho \"${0##*/} $*\" >>\"$HOME/called\"\n" << body << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  std::string home() const { return directory_.path(); }
  fs::path Folder() const { return fs::path(home()) / ".hvdray/clusters" / place_.cluster; }

  TempDirectory directory_;
  ScriptPlace place_;
};

TEST_F(NodeScriptTest, ANodeNeverSeenHasNothing) {
  const NodeSurvey survey = Survey();
  EXPECT_TRUE(survey.record.empty());
  EXPECT_EQ(survey.processes, 0);
  EXPECT_TRUE(survey.ray_node.empty());
  EXPECT_FALSE(fs::exists(home() + "/.hvdray"));
}

TEST_F(NodeScriptTest, AStepThatSucceedsIsRecordedAndOneThatFailsIsNot) {
  EXPECT_EQ(Call("step", {"0", "aa", "echo one"}).output, "one\n");
  EXPECT_EQ(Call("step", {"1", "bb", "exit 3"}).exit_code, 3);
  EXPECT_EQ(Survey().record, std::vector<std::string>({"aa"}));
  EXPECT_EQ(Call("step", {"1", "bb", "true"}).exit_code, 0);
  EXPECT_EQ(Survey().record, std::vector<std::string>({"aa", "bb"}));
}

TEST_F(NodeScriptTest, AStepIsForgottenTogetherWithThoseAfterItBeforeItRunsAgain) {
  for (const auto* hash : {"aa", "bb", "cc"}) {
    Call("step", {std::to_string(Survey().record.size()), hash, "true"});
  }
  EXPECT_EQ(Call("step", {"1", "dd", "cat ~/.hvdray/clusters/*/*/steps; exit 1"}).output, "aa\n");
  EXPECT_EQ(Survey().record, std::vector<std::string>({"aa"}));
  Call("mark", {"1", "ee"});
  EXPECT_EQ(Survey().record, std::vector<std::string>({"aa", "ee"}));
}

TEST_F(NodeScriptTest, CommandsKeepTheirQuotesAndTheirExitCode) {
  const Answer answer = Call("step", {"0", "aa", "printf '%s|' \"a b\" 'c\"d' $((1+1)); (exit 7)"});
  EXPECT_EQ(answer.output, "a b|c\"d|2|");
  EXPECT_EQ(answer.exit_code, 7);
}

TEST_F(NodeScriptTest, ALoginShellReadsBashrc) {
  std::ofstream(home() + "/.bashrc") << "from_bashrc() { echo bashrc-$1; }\n";
  place_.shell = ShellKind::kLogin;
  const Answer answer = Call("step", {"0", "aa", "from_bashrc yes # a comment"});
  EXPECT_EQ(answer.exit_code, 0) << answer.output;
  EXPECT_NE(answer.output.find("bashrc-yes"), std::string::npos);
}

TEST_F(NodeScriptTest, WorkersKnowTheHeadAndStartKnowsTheToken) {
  place_.head = "10.0.0.9";
  EXPECT_EQ(Call("step", {"0", "aa", "echo $RAY_HEAD_IP/${RAY_AUTH_MODE-}"}).output, "10.0.0.9/\n");
  const Answer started =
      Call("start", {"1", "bb", "echo $RAY_HEAD_IP/$RAY_AUTH_MODE/$HVDRAY_NODE"});
  EXPECT_EQ(started.output, "10.0.0.9/token/" + place_.cluster + "/10.0.0.1\n");
  EXPECT_EQ(Survey().joined_head, "10.0.0.9");
}

TEST_F(NodeScriptTest, AHeadsTokenStaysAWorkersFollows) {
  EXPECT_EQ(ParseToken(Call("token", {"keep"}, "first\n").output), "first");
  EXPECT_EQ(ParseToken(Call("token", {"keep"}, "second\n").output), "first");
  EXPECT_EQ(ParseToken(Call("token", {"set"}, "third\n").output), "third");
  EXPECT_EQ(ReadAll(Folder() / "token"), "third");
  EXPECT_EQ(ReadAll(home() + "/.ray/auth_token"), "first");  // a user's own is never replaced
  struct stat info {};
  ASSERT_EQ(::stat((Folder() / "token").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  ASSERT_EQ(::stat((home() + "/.ray/auth_token").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

// What runs in a container: the command ends with its process group when stdin does.
TEST_F(NodeScriptTest, ALineEndsWithItsInput) {
  const Answer answer = Call("line", {"aa", "plain", "echo in; setsid sleep 1000; echo never"});
  EXPECT_NE(answer.exit_code, 0);
  EXPECT_EQ(answer.output.find("never"), std::string::npos);
}

TEST_F(NodeScriptTest, WithoutAnEngineAContainerIsRefusedInWords) {
  place_.engine = "no-such-engine";
  place_.container = "box";
  const Answer answer =
      Call("container", {"0", "aa", "keep", "cc", "always", "detect", "detect", "image", ""});
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_NE(answer.output.find("no no-such-engine there"), std::string::npos);
  EXPECT_EQ(Call("init", {"0", "bb", "echo on the host"}).output, "on the host\n");
  EXPECT_NE(Call("step", {"1", "cc", "true"}).exit_code, 0);
  EXPECT_EQ(Survey().record, std::vector<std::string>({"bb"}));
}

// Daemons stand in for Ray: what counts is the mark, and descent where the mark is gone.
TEST_F(NodeScriptTest, StopEndsTheDaemonsOfThisNodeOnly) {
  // Shells that say when they are there: in the middle of execve() a process shows no mark.
  const std::string daemons =
      "setsid sh -c ': >~/first; sleep 1000; :' >/dev/null 2>&1 & "
      "env -i setsid sleep 1001 >/dev/null 2>&1 & "
      "sh -c 'trap \"\" TERM; env -i sh -c \": >$HOME/second; sleep 1002; :\"; sleep 1003' "
      ">/dev/null 2>&1 &";
  EXPECT_EQ(Call("start", {"0", "aa", daemons}).exit_code, 0);
  while (!fs::exists(home() + "/first") || !fs::exists(home() + "/second")) Survey();
  ScriptPlace ours = place_;
  place_.node = "10.0.0.2";
  EXPECT_EQ(Call("start", {"0", "aa", "sleep 1000 >/dev/null 2>&1 &"}).exit_code, 0);
  std::swap(ours, place_);
  // sleep 1001 has neither mark nor a marked parent: not Ray's, by any sign.
  EXPECT_GE(Survey().processes, 3);
  const auto stopped = ParseStopped(Call("stop").output);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_GE(stopped->found, 3);
  EXPECT_EQ(stopped->left, 0);
  EXPECT_EQ(Survey().processes, 0);
  std::swap(ours, place_);
  EXPECT_EQ(Survey().processes, 1);
  EXPECT_EQ(ParseStopped(Call("stop").output)->left, 0);
  EXPECT_EQ(ParseStopped(Call("stop").output)->found, 0);
}

TEST_F(NodeScriptTest, AnotherUsersPortGetsNoToken) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give sockets away";
  ScriptedServer server({{.answers = {ScriptedServer::Answer(401, "")}},
                         {.answers = {ScriptedServer::Answer(401, "")}}});
  Call("token", {"keep"}, "geheim\n");
  fs::create_directories(home() + "/dashboard");
  std::ofstream(home() + "/dashboard/dashboard.py")
      << "import os, signal\nopen(os.environ['HOME'] + '/up', 'w')\nsignal.pause()\n";
  Call("start", {"0", "aa",
                 fmt::format("setsid python3 ~/dashboard/dashboard.py --port={} >/dev/null 2>&1 &",
                             server.port())});
  while (!fs::exists(home() + "/up")) Survey();
  EXPECT_NE(Call("nodes").output.find("@problem the dashboard"), std::string::npos);
  server.GiveTo(65534);
  Call("nodes");
  Call("drain", {"1"});
  Call("stop");
  const auto& requests = server.Stop();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_NE(requests[0].find("Bearer geheim"), std::string::npos);
}

TEST_F(NodeScriptTest, ALeaseIsWatchedByOneProcessUntilItIsTakenBack) {
  EXPECT_EQ(Survey().lease, 0);
  EXPECT_EQ(Call("lease", {"99999999999", "stay"}).exit_code, 0);
  const std::string first = ReadAll(Folder() / "10.0.0.1/watcher");
  EXPECT_EQ(Survey().lease, 99999999999);
  EXPECT_TRUE(Survey().is_lease_watched);
  EXPECT_EQ(Survey().processes, 0) << "it is not Ray's";
  EXPECT_EQ(Call("lease", {"99999999998", "stay"}).exit_code, 0);
  const std::string second = ReadAll(Folder() / "10.0.0.1/watcher");
  EXPECT_NE(first, second);
  EXPECT_EQ(Survey().lease, 99999999998);
  WaitForEnd(std::stoi(first));
  EXPECT_EQ(Call("lease", {"0", "stay"}).exit_code, 0);
  EXPECT_EQ(Survey().lease, 0);
  WaitForEnd(std::stoi(second));
}

TEST_F(NodeScriptTest, AtTheEndOfItsLeaseTheNodeEndsItself) {
  EXPECT_EQ(Call("start", {"0", "aa", "setsid sleep 1000 >/dev/null 2>&1 &"}).exit_code, 0);
  while (Survey().processes != 1) continue;  // in the middle of execve() it shows no mark
  EXPECT_EQ(Call("lease", {"1", "stay"}).exit_code, 0);
  const fs::path lease = Folder() / "10.0.0.1/lease";
  while (fs::exists(lease)) Survey();
  EXPECT_EQ(Survey().processes, 0);
  EXPECT_FALSE(Survey().is_lease_watched);
  EXPECT_EQ(Survey().record, std::vector<std::string>({"aa"})) << "what is set up stays";
}

TEST_F(NodeScriptTest, AtTheEndOfItsLeaseAHeadTakesItsAutoscalersWorkersAlongAndPowersOff) {
  for (const auto* name : {"ray", "sudo", "shutdown"}) MakeCommand(name, "");
  std::ofstream(home() + "/ray_bootstrap_config.yaml") << "{}";
  EXPECT_EQ(Call("lease", {"1", "poweroff"}).exit_code, 0);
  const auto called = [this] { return ReadAll(home() + "/called"); };
  while (called().find("sudo") == std::string::npos) Survey();
  EXPECT_EQ(called(), fmt::format("ray down --yes --workers-only {}/ray_bootstrap_config.yaml\n"
                                  "sudo -n shutdown -h now\n",
                                  home()));
}

TEST_F(NodeScriptTest, ALeaseThatIsTakenBackInTheLastMomentKeepsTheMachineOn) {
  MakeCommand("ray", "until [ -f \"$HOME/go\" ]; do sleep 0.05; done");
  for (const auto* name : {"sudo", "shutdown"}) MakeCommand(name, "");
  std::ofstream(home() + "/ray_bootstrap_config.yaml") << "{}";
  EXPECT_EQ(Call("lease", {"1", "poweroff"}).exit_code, 0);
  const int watcher = std::stoi(ReadAll(Folder() / "10.0.0.1/watcher"));
  const auto called = [this] { return ReadAll(home() + "/called"); };
  while (called().find("ray down") == std::string::npos) Survey();
  EXPECT_EQ(Survey().lease, 1) << "so that up takes it back";
  EXPECT_TRUE(Survey().is_lease_watched);
  EXPECT_EQ(Call("lease", {"0", "poweroff"}).exit_code, 0);
  std::ofstream(home() + "/go") << "";
  WaitForEnd(watcher);
  EXPECT_EQ(called().find("shutdown"), std::string::npos);
}

TEST_F(NodeScriptTest, PoweringOffIsTriedUntilItWorks) {
  MakeCommand("sudo", "exit 1");
  MakeCommand("shutdown", "[ $(grep -c ^shutdown \"$HOME/called\") -gt 1 ]");
  EXPECT_EQ(Call("lease", {"1", "poweroff"}).exit_code, 0);
  WaitForEnd(std::stoi(ReadAll(Folder() / "10.0.0.1/watcher")));
  const std::string once = "sudo -n shutdown -h now\nshutdown -h now\n";
  EXPECT_EQ(ReadAll(home() + "/called"), once + once);
}

TEST_F(NodeScriptTest, WhatALeaseHasEndedIsNotStartedBeforeAnotherCall) {
  EXPECT_EQ(Call("lease", {"1", "stay"}).exit_code, 0);
  while (!Survey().has_lease_ended) continue;
  const Answer refused = Call("start", {"0", "aa", "touch ~/started"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.output.find("its lease has ended"), std::string::npos) << refused.output;
  EXPECT_FALSE(fs::exists(home() + "/started"));
  EXPECT_EQ(Call("lease", {"0", "stay"}).exit_code, 0);
  EXPECT_FALSE(Survey().has_lease_ended);
  EXPECT_EQ(Call("start", {"0", "aa", "touch ~/started"}).exit_code, 0);
}

TEST_F(NodeScriptTest, OneUpAtATimeClaimsTheNode) {
  const auto claim = [this] {
    return ParseSurvey(Call("survey", {"claim", "ann@a, pid 7"}).output);
  };
  EXPECT_EQ(claim().at_work, "");
  EXPECT_EQ(claim().at_work, "") << "the first one has ended";
  // Another one's agent that lives: this process.
  const std::string began = BeganAt(::getpid());
  std::ofstream(Folder() / "10.0.0.1/at-work")
      << fmt::format("{} {} bob@b, pid 9\n", ::getpid(), began);
  EXPECT_EQ(claim().at_work, "bob@b, pid 9");
  EXPECT_EQ(ParseSurvey(Call("survey", {"await"}).output).at_work, "bob@b, pid 9");
  EXPECT_EQ(Survey().at_work, "") << "only who asks";
  // Its pid is another process's now.
  std::ofstream(Folder() / "10.0.0.1/at-work")
      << fmt::format("{} {}1 bob@b, pid 9\n", ::getpid(), began);
  EXPECT_EQ(claim().at_work, "");
}

TEST_F(NodeScriptTest, AnUpThatIsAZombieClaimsNothing) {
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, zombie, &info, WEXITED | WNOWAIT), 0);
  fs::create_directories(Folder() / "10.0.0.1");
  std::ofstream(Folder() / "10.0.0.1/at-work")
      << fmt::format("{} {} bob@b, pid 9\n", zombie, BeganAt(zombie));
  EXPECT_EQ(ParseSurvey(Call("survey", {"claim", "ann@a, pid 7"}).output).at_work, "");
  EXPECT_EQ(::waitpid(zombie, nullptr, 0), zombie);
}

TEST_F(NodeScriptTest, EndTakesTheLeaseBack) {
  EXPECT_EQ(Call("lease", {"99999999999", "stay"}).exit_code, 0);
  const int watcher = std::stoi(ReadAll(Folder() / "10.0.0.1/watcher"));
  EXPECT_EQ(ParseStopped(Call("stop").output)->left, 0);
  EXPECT_TRUE(Survey().is_lease_watched) << "a restart of Ray does not concern it";
  EXPECT_EQ(ParseStopped(Call("end").output)->left, 0);
  EXPECT_EQ(Survey().lease, 0);
  WaitForEnd(watcher);
}

TEST_F(NodeScriptTest, VersionsComeFromTheInterpreterOfTheRayOnThePath) {
  std::ofstream(home() + "/.bashrc") << "PATH=/usr/bin:/bin\n";
  place_.shell = ShellKind::kLogin;
  const auto none = ParseVersions(Call("versions", {"", "ray"}).output);
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->ray, "");
}

TEST_F(NodeScriptTest, VersionsComeFromTheRayThatTheStartCommandsReach) {
  fs::create_directories(home() + "/ml/bin");
  fs::create_directories(home() + "/lib/ray-2.9.0.dist-info");
  std::ofstream(home() + "/lib/ray-2.9.0.dist-info/METADATA") << "Name: ray\nVersion: 2.9.0\n";
  std::ofstream(home() + "/ml/bin/ray") << "#!/usr/bin/python3\n";
  fs::permissions(home() + "/ml/bin/ray", fs::perms::owner_all);
  const std::string lib = "export PYTHONPATH=~/lib\n";
  for (const auto& [before, program] : {std::pair(lib, "~/ml/bin/ray"),
                                        {lib, "\"$HOME\"/ml/bin/ray"},
                                        {lib + "export PATH=~/ml/bin:$PATH\n", "ray"}}) {
    const auto found = ParseVersions(Call("versions", {before, program}).output);
    ASSERT_TRUE(found.has_value()) << program;
    EXPECT_EQ(found->ray, "2.9.0") << program;
  }
}

TEST(NodeAnswersTest, ASurveyIsReadWhateverElseTheShellPrinted) {
  const NodeSurvey survey = ParseSurvey(
      "Welcome!\n@step aa\r\n@step bb\n@processes 12\n@gcs\n@node f00\n@address 10.0.0.1\n"
      "@head 10.0.0.9\n@containers 1\n@container c0de\n@lease 77\n@watched\n@processes 3\n@unknown "
      "x\n@");
  EXPECT_EQ(survey.record, std::vector<std::string>({"aa", "bb"}));
  EXPECT_EQ(survey.processes, 15) << "of the host and of the container";
  EXPECT_EQ(survey.containers, 1);
  EXPECT_EQ(survey.container, "c0de");
  EXPECT_EQ(survey.lease, 77);
  EXPECT_TRUE(survey.is_lease_watched);
  EXPECT_TRUE(survey.has_gcs);
  EXPECT_EQ(survey.ray_node, "f00");
  EXPECT_EQ(survey.address, "10.0.0.1");
  EXPECT_EQ(survey.joined_head, "10.0.0.9");
}

TEST(NodeAnswersTest, TheDashboardIsWhereItsProcessHasItOrNowhere) {
  const NodeSurvey moved = ParseSurvey("@dashboard 10.0.0.1 8301\n");
  ASSERT_TRUE(moved.dashboard.has_value());
  EXPECT_EQ(moved.dashboard->host, "10.0.0.1");
  EXPECT_EQ(moved.dashboard->port, 8301);
  EXPECT_TRUE(moved.dashboard->IsAtOneAddress());
  EXPECT_TRUE(ParseSurvey("@dashboard 0.0.0.0 8265\n").dashboard->IsEverywhere());
  EXPECT_TRUE(ParseSurvey("@dashboard localhost 8265\n").dashboard->IsOnLoopback());
  EXPECT_TRUE(ParseSurvey("@dashboard 127.0.0.1 8265\n").dashboard->IsOnLoopback());
  for (const auto& [listens, reached] :
       {std::pair("10.0.0.1", "10.0.0.1"), std::pair("fd00::1", "fd00::1"),
        std::pair("0.0.0.0", "127.0.0.1"), std::pair("::", "::1"),
        std::pair("localhost", "127.0.0.1"), std::pair("127.0.0.2", "127.0.0.2"),
        std::pair("::1", "::1")}) {
    const NodeSurvey survey = ParseSurvey(fmt::format("@dashboard {} 8265\n", listens));
    EXPECT_EQ(survey.dashboard->ReachedAt(), reached) << listens;
  }
  EXPECT_TRUE(ParseSurvey("@no_dashboard\n").has_no_dashboard);
  for (const auto* line :
       {"@dashboard\n", "@dashboard x\n", "@dashboard x 0x\n", "@dashboard  1\n"}) {
    EXPECT_FALSE(ParseSurvey(line).dashboard.has_value()) << line;
  }
  EXPECT_TRUE(ParseJoinedNodes("@no_dashboard\n@drained 0 0\n").is_without_dashboard);
}

TEST(NodeAnswersTest, VersionsAreWholeOrNothing) {
  EXPECT_FALSE(ParseVersions("").has_value());
  EXPECT_FALSE(ParseVersions("@ray 2.60.0\n").has_value());
  EXPECT_EQ(ParseVersions("@ray\n")->ray, "");
  EXPECT_EQ(*ParseVersions("@ray 2.60.0\n@python 3.11.7\n"), (RayVersions{"2.60.0", "3.11.7"}));
}

TEST(NodeAnswersTest, NodesOrWhyThereAreNone) {
  const JoinedNodes nodes =
      ParseJoinedNodes("@dashboard 127.0.0.1 8265\n@alive f00 10.0.0.1\n@alive f01 10.0.0.2\n");
  EXPECT_EQ(nodes.problem, "");
  EXPECT_EQ(nodes.alive.at("f01"), "10.0.0.2");
  EXPECT_EQ(ParseJoinedNodes("@problem no dashboard\n").problem, "no dashboard");
  EXPECT_NE(ParseJoinedNodes("").problem, "");
}

TEST(NodeAnswersTest, ClusterNamesMustFitIntoPaths) {
  EXPECT_TRUE(IsPlainClusterName("my-cluster_2.0"));
  for (const char* name : {"", ".hidden", "-x", "a/b", "a b", "a'b", "\xc3\xa4"}) {
    EXPECT_FALSE(IsPlainClusterName(name)) << name;
  }
}

}  // namespace
}  // namespace hvdray
