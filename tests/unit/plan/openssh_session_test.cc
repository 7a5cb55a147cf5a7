// SPDX-License-Identifier: Apache-2.0
// The system's ssh against a real sshd, under a configuration that makes something else of a
// session: all ways in which hvdray runs ssh.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/file.h"
#include "cluster/transport/foreground_process.h"
#include "cluster/transport/rsync_words.h"
#include "cluster/transport/ssh_tunnel.h"
#include "launcher/plan/job_ssh.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/loopback_sshd.h"
#include "tests/fakes/stream_owner.h"

namespace hvdray {
namespace {

constexpr std::chrono::seconds kLong(60);

struct Kind {
  std::string name;
  std::string setting;  ///< {0}: the test's directory; {1}: a port that is taken.
};

const std::vector<Kind>& AllKinds() {
  static const std::vector<Kind> kinds = {
      {"RemoteCommand", "RemoteCommand echo somebody else"},
      {"RequestTty", "RequestTTY force"},
      {"SessionTypeNone", "SessionType none"},
      {"SessionTypeSubsystem", "SessionType subsystem"},
      {"StdinNull", "StdinNull yes"},
      {"Fork", "ForkAfterAuthentication yes"},
      {"Master", "ControlMaster auto\nControlPath {0}/master\nControlPersist yes"},
      {"MasterThatAsks", "ControlMaster autoask\nControlPath {0}/master"},
      {"LocalCommand", "PermitLocalCommand yes\nLocalCommand touch {0}/local; echo local"},
      {"EscapeChar", "EscapeChar ~"},
      {"LocalForward", "LocalForward 127.0.0.1:{1} 127.0.0.1:9\nExitOnForwardFailure yes"},
      {"RemoteForward", "RemoteForward 127.0.0.1:{1} 127.0.0.1:9\nExitOnForwardFailure yes"},
      {"DynamicForward", "DynamicForward 127.0.0.1:{1}\nExitOnForwardFailure yes"},
      {"Tunnel", "Tunnel yes\nExitOnForwardFailure yes"},
      {"BatchMode", "BatchMode no"},
      {"KeysForTheAgent", "AddKeysToAgent ask"},
  };
  return kinds;
}

class OpensshSessionTest : public testing::Test {
 protected:
  void Configure(const std::string& settings) {
    const std::string text = fmt::format(
        "{}\nHostName 127.0.0.1\nPort {}\nIdentityFile {}\nIdentityAgent none\n"
        "UserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\n",
        fmt::format(fmt::runtime(settings), directory_.path(), taken_.port()), sshd_.port(),
        sshd_.directory() / "client", directory_ / "known_hosts");
    ASSERT_TRUE(WriteFileAtomically(directory_ / "config", text).ok());
    spec_.ssh_config_file.Set(directory_ / "config", "test");
  }

  /// Nothing but the session was made.
  void ExpectNoTraces() const {
    EXPECT_FALSE(std::filesystem::exists(directory_ / "master"));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "local"));
  }

  std::string AllSettings() const {
    std::string all;
    for (const Kind& kind : AllKinds()) all += kind.setting + "\n";
    return all;
  }

  TempDirectory directory_;
  LoopbackSshd sshd_;
  LoopbackListener taken_;
  JobSpec spec_;
  const HostSlots host_{"node7", 1};
};

class OpensshSettingTest : public OpensshSessionTest, public testing::WithParamInterface<Kind> {};

TEST_P(OpensshSettingTest, LeavesACommandItsInputOutputAndExitCode) {
  Configure(GetParam().setting);
  const Result<CapturedRun> run =
      RunOverSshForOutput(OpensshOptionsFor(spec_, host_), "node7",
                          "if [ -t 0 ]; then echo tty; fi; cat; exit 3", "ping\n~.\npong\n", kLong);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(run->output, "ping\n~.\npong\n");
  EXPECT_EQ(run->exit_code, 3);
  ExpectNoTraces();
}

INSTANTIATE_TEST_SUITE_P(Kinds, OpensshSettingTest, testing::ValuesIn(AllKinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_F(OpensshSessionTest, AgentsStartWhateverTheConfigurationMakesOfASession) {
  Configure(AllSettings());
  const auto loop = Loop::Create().value();
  BlockingPool pool(*loop);
  const HostsByName hosts = {{"node7", host_}};
  RemoteStderr errors;
  const auto shell = MakeOpensshShell(*loop, pool, spec_, hosts, errors);
  AgentStart running;
  std::string got;
  std::optional<Status> how;
  shell->Run("node7", "cat; exit 3", [&](Result<AgentStart> start) {
    ASSERT_TRUE(start.ok()) << start.status().ToString();
    running = std::move(*start);
    running.process->OnExit([&](Status status) { how = std::move(status); });
    StartStream(*running.stream, {.on_data = [&](ByteView bytes) {
      got += bytes;
      if (got == "~.\n") loop->Post([&] { running.stream.reset(); });
    }});
    running.stream->Write("~.\n");
  });
  ASSERT_TRUE(RunUntil(*loop, [&] { return how.has_value(); }));
  EXPECT_EQ(got, "~.\n") << testing::PrintToString(errors.LinesOf("node7"));
  EXPECT_EQ(how->message(), "ssh exited with code 3");
  ExpectNoTraces();
}

TEST_F(OpensshSessionTest, ATunnelOpensThoughForwardsOfTheConfigurationCannot) {
  Configure(AllSettings());
  const LoopbackListener dashboard;
  const TunnelEnds ends = {.socket_path = directory_ / "socket",
                           .remote_port = static_cast<uint16_t>(dashboard.port())};
  const auto tunnel = SshTunnel::Open(OpensshOptionsFor(spec_, host_), "node7", ends, kLong);
  ASSERT_TRUE(tunnel.ok()) << tunnel.status().ToString();
  ExpectNoTraces();
}

TEST_F(OpensshSessionTest, RsyncCopiesWhateverTheConfigurationMakesOfASession) {
  Configure(AllSettings());
  ASSERT_TRUE(WriteFileAtomically(directory_ / "file", "text").ok());
  const RsyncCopy copy = {
      .source = directory_ / "file", .target = directory_ / "copy", .host = "node7"};
  const Result<CapturedRun> run =
      RunForOutput(RsyncArgv(copy, OpensshOptionsFor(spec_, host_)), "", kLong);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(run->exit_code, 0) << testing::PrintToString(run->error_lines);
  EXPECT_EQ(ReadFile(directory_ / "copy").value_or(""), "text");
  ExpectNoTraces();
}

TEST_F(OpensshSessionTest, WhatSshSaysIsToldThoughTheConfigurationWantsItQuiet) {
  Configure("LogLevel QUIET\nProxyCommand echo >&2 no way there; exit 1");
  const Result<CapturedRun> run =
      RunOverSshForOutput(OpensshOptionsFor(spec_, host_), "node7", "true", "", kLong);
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find("no way there"), std::string::npos)
      << run.status().ToString();
  EXPECT_NE(run.status().ToString().find("ProxyCommand"), std::string::npos)
      << run.status().ToString();
}

/// How the agent of node7 fails to start.
class OpensshFailureTest : public OpensshSessionTest {
 protected:
  Status StatusOfStart(const std::string& command) {
    const auto loop = Loop::Create().value();
    BlockingPool pool(*loop);
    const HostsByName hosts = {{"node7", host_}};
    RemoteStderr errors;
    const auto shell = MakeOpensshShell(*loop, pool, spec_, hosts, errors);
    std::unique_ptr<AgentProcess> process;
    std::optional<Status> why;
    shell->Run("node7", command, [&](Result<AgentStart> start) {
      ASSERT_TRUE(start.ok()) << start.status().ToString();
      process = std::move(start->process);
      process->OnExit(
          [&](const Status& how) { why = shell->Explain("node7", how, errors.LinesOf("node7")); });
    });
    EXPECT_TRUE(RunUntil(*loop, [&] { return why.has_value(); }));
    return why.value_or(Status());
  }
};

TEST_F(OpensshFailureTest, AProxyThatIsNotThereIsTold) {
  Configure("ProxyCommand /no/such/proxy %h");
  const Status why = StatusOfStart("true");
  EXPECT_EQ(why.code(), ErrorCode::kHostUnreachable);
  EXPECT_NE(why.message().find("ProxyCommand /no/such/proxy"), std::string::npos) << why.message();
}

TEST_F(OpensshFailureTest, WordsOfAStartUpFileAreNoRefusedLogin) {
  Configure("");
  const Status why =
      StatusOfStart("echo 'git@example: Permission denied (publickey).' >&2; exit 1");
  EXPECT_EQ(why.code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(why.message().find("ssh exited with code 1"), std::string::npos) << why.message();
}

TEST_F(OpensshSessionTest, ALoginIsKnownBeforeTheShellThereSaysAnything) {
  Configure("");
  const auto loop = Loop::Create().value();
  BlockingPool pool(*loop);
  const HostsByName hosts = {{"node7", host_}};
  RemoteStderr errors;
  const auto shell = MakeOpensshShell(*loop, pool, spec_, hosts, errors);
  AgentStart running;
  shell->Run("node7", "exec sleep 600", [&](Result<AgentStart> start) {
    ASSERT_TRUE(start.ok()) << start.status().ToString();
    running = std::move(*start);
  });
  ASSERT_TRUE(RunUntil(*loop, [&] { return errors.HasLoggedIn("node7"); }));
  EXPECT_TRUE(errors.LinesOf("node7").empty()) << "no reason of a failure";
  running = {};
  shell->Close();
}

TEST_F(OpensshFailureTest, NoAlgorithmInCommonIsTold) {
  Configure("Ciphers aes128-cbc\n");
  const Status why = StatusOfStart("true");
  EXPECT_EQ(why.code(), ErrorCode::kHandshakeFailed) << why.ToString();
  EXPECT_TRUE(why.message().starts_with("Unable to negotiate with ")) << why.message();
  EXPECT_NE(why.message().find("no matching cipher found"), std::string::npos) << why.message();
}

TEST_F(OpensshFailureTest, ARefusedLoginIsTold) {
  Configure("PubkeyAuthentication no");
  EXPECT_EQ(StatusOfStart("true").code(), ErrorCode::kAuthenticationFailed);
}

}  // namespace
}  // namespace hvdray
