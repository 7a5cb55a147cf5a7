// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/command_shell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "cluster/transport/child_process.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/stream_owner.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

bool Has(const Words& argv, const std::string& word) {
  return std::find(argv.begin(), argv.end(), word) != argv.end();
}

TEST(OpensshArgvTest, AsksNothingForwardsNothingAndEndsOptionsBeforeTheHost) {
  const Words argv = OpensshArgv({}, "-oProxyCommand=evil", "true");
  EXPECT_EQ(argv.front(), "ssh");
  for (const char* word : {"BatchMode=yes", "ClearAllForwardings=yes", "Compression=no", "-T"}) {
    EXPECT_TRUE(Has(argv, word)) << word;
  }
  ASSERT_GE(argv.size(), 3U);
  EXPECT_EQ(Words(argv.end() - 3, argv.end()), (Words{"--", "-oProxyCommand=evil", "true"}));
  for (const char* word :
       {"ControlMaster=no", "PermitLocalCommand=no", "Tunnel=no", "ConnectionAttempts=1"}) {
    EXPECT_TRUE(Has(argv, word)) << word;
  }
  EXPECT_FALSE(Has(argv, "ControlPath=none")) << "a master that the user has may be used";
  EXPECT_FALSE(Has(argv, "-p")) << "what is not said is ssh's own";
}

TEST(OpensshArgvTest, SaysWhatWasSaid) {
  OpensshOptions options;
  options.user = "ann";
  options.proxy_command = "nc %h %p";
  options.port = 2222;
  options.identity_file = "/k";
  options.config_file = "/c";
  options.strict_host_key_checking = "yes";
  options.host_key_alias = "i-0abc";
  const Words argv = OpensshArgv(options, "h", "x");
  for (const char* word : {"2222", "/k", "/c", "ann", "ProxyCommand=nc %h %p",
                           "StrictHostKeyChecking=yes", "HostKeyAlias=i-0abc", "CheckHostIP=no"}) {
    EXPECT_TRUE(Has(argv, word)) << word;
  }
}

TEST(OpensshArgvTest, ATerminalForTheUserIsAskedForAndForwards) {
  OpensshOptions options;
  options.has_terminal = true;
  options.may_ask = true;
  options.local_forwards = {"127.0.0.1:1:127.0.0.1:2", "127.0.0.1:3:127.0.0.1:4"};
  options.log_file = "/l";
  const Words argv = OpensshArgv(options, "h", "");
  for (const char* word :
       {"-tt", "RequestTTY=force", "BatchMode=no", "ExitOnForwardFailure=yes", "ControlPath=none",
        "127.0.0.1:1:127.0.0.1:2", "127.0.0.1:3:127.0.0.1:4", "/l"}) {
    EXPECT_TRUE(Has(argv, word)) << word;
  }
  EXPECT_FALSE(Has(argv, "-T"));
  EXPECT_FALSE(Has(argv, "none")) << "the escape character stays";
  EXPECT_FALSE(Has(argv, "ClearAllForwardings=yes"));
  EXPECT_EQ(argv.back(), "h") << "no command: the user's own shell";
  options.has_own_forwards = true;
  options.session_options = {"RemoteCommand=none"};
  const Words others = OpensshArgv(options, "h", "");
  EXPECT_TRUE(Has(others, "ExitOnForwardFailure=no")) << "theirs may fail";
  EXPECT_TRUE(Has(others, "RemoteCommand=none"));
}

TEST(LaunchAgentArgvTest, TheHostIsQuotedAndTheCommandIsTheLastWord) {
  EXPECT_EQ(LaunchAgentArgv("rsh {host} -n {host}", "a'b", "run me"),
            TiedShell("rsh 'a'\"'\"'b' -n 'a'\"'\"'b' \"$@\"", {"run me"}));
  EXPECT_EQ(LaunchAgentArgv("rsh {host}", "{host}", "x"), TiedShell("rsh '{host}' \"$@\"", {"x"}))
      << "a host of that name is not replaced again";
}

struct Sample {
  const char* line;
  ErrorCode code;
};

TEST(ExplainOpensshTest, WhatSshPrintsBecomesATypedError) {
  const Status how(ErrorCode::kAgentLost, "ssh exited with code 255");
  const Sample samples[] = {
      {"ssh: Could not resolve hostname nope: Name or service not known", ErrorCode::kUnknownHost},
      {"ssh: connect to host h port 22: Connection refused", ErrorCode::kHostRefused},
      {"ssh: connect to host h port 22: No route to host", ErrorCode::kHostUnreachable},
      {"ssh: connect to host h port 22: Connection timed out", ErrorCode::kConnectTimeout},
      {"root@h: Permission denied (publickey).", ErrorCode::kAuthenticationFailed},
      {"Host key verification failed.", ErrorCode::kHostKeyRejected},
      {"Connection closed by 10.0.0.7 port 22", ErrorCode::kHostBusy},
      {"Connection reset by 10.0.0.7 port 22", ErrorCode::kHostBusy},
      {"kex_exchange_identification: Connection closed by remote host", ErrorCode::kHostBusy},
      {"kex_exchange_identification: read: Connection reset by peer", ErrorCode::kHostBusy},
      {"kex_exchange_identification: write: Broken pipe", ErrorCode::kHostBusy},
      {"banner exchange: Connection to UNKNOWN port 65535: Broken pipe", ErrorCode::kHostBusy},
      {"kex_exchange_identification: banner line contains invalid characters",
       ErrorCode::kHostRefused},
      {"client_loop: send disconnect: Connection reset by peer", ErrorCode::kAgentLost},
      {"Unable to negotiate with 10.0.0.7 port 22: no matching cipher found. Their offer: x",
       ErrorCode::kHandshakeFailed},
  };
  for (const Sample& sample : samples) {
    const Status status = ExplainOpenssh(how, {"some banner", sample.line}, "");
    EXPECT_EQ(status.code(), sample.code) << sample.line;
    EXPECT_EQ(status.message(), sample.line);
    EXPECT_FALSE(status.hint().empty());
  }
  const Status banner = ExplainOpenssh(
      how, {"@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @", "@@@@@@@@@@@@@@@@@@@"},
      "");
  EXPECT_EQ(banner.code(), ErrorCode::kHostKeyRejected);
  EXPECT_EQ(banner.message().find('@'), std::string::npos) << banner.message();
  const Status jump = ExplainOpenssh(
      how, {"stdio forwarding failed", "Connection closed by UNKNOWN port 65535"}, "ProxyJump j");
  EXPECT_EQ(jump.code(), ErrorCode::kHostRefused) << "the jump host is not full";
  const Status closed = ExplainOpenssh(
      how, {"packet.c:sshpkt_vfatal():1909 (pid=7): Connection closed by 10.0.0.7 port 22"}, "");
  EXPECT_EQ(closed.message(), "Connection closed by 10.0.0.7 port 22");
  const Status other = ExplainOpenssh(how, {"Bad configuration option: x"}, "");
  EXPECT_EQ(other.code(), ErrorCode::kAgentStartFailed);
  EXPECT_EQ(other.message(), how.message() + ": Bad configuration option: x");
}

TEST(ExplainOpensshTest, AKeyThatOthersMayReadIsTheCauseOfTheRefusal) {
  const Status status = ExplainOpenssh(
      Status(ErrorCode::kAgentLost, "ssh exited with code 255"),
      {"@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @",
       "Permissions 0644 for '/k' are too open.", "This private key will be ignored.",
       "Load key \"/k\": bad permissions", "root@h: Permission denied (publickey)."},
      "");
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_EQ(status.message(), "Permissions 0644 for '/k' are too open.");
  EXPECT_NE(status.hint().find("chmod 600"), std::string::npos) << status.hint();
}

TEST(ExplainOpensshTest, AProxyThatFailsIsNamedWithItsWords) {
  const Status how(ErrorCode::kAgentLost, "ssh exited with code 255");
  const std::string closed = "kex_exchange_identification: Connection closed by remote host";
  const Status missing = ExplainOpenssh(how, {"/bin/bash: line 1: exec: nosuch: not found", closed},
                                        "ProxyCommand nosuch %h");
  EXPECT_EQ(missing.code(), ErrorCode::kHostUnreachable);
  EXPECT_EQ(missing.message(),
            "ProxyCommand nosuch %h: /bin/bash: line 1: exec: nosuch: not found");
  const Status denied =
      ExplainOpenssh(how, {"exec: /etc/passwd: cannot execute: Permission denied", closed},
                     "ProxyCommand /etc/passwd");
  EXPECT_EQ(denied.code(), ErrorCode::kHostUnreachable) << "nobody refused a login";
  const Status alone =
      ExplainOpenssh(how, {"/bin/bash: line 1: /no/such/proxy: No such file or directory"},
                     "ProxyCommand /no/such/proxy");
  EXPECT_EQ(alone.code(), ErrorCode::kHostUnreachable) << "ssh may say nothing of its own";
  const Status theirs = ExplainOpenssh(how, {"disk full"}, "ProxyCommand nc %h");
  EXPECT_EQ(theirs.code(), ErrorCode::kAgentStartFailed) << "the host's words";
  const Status silent = ExplainOpenssh(how, {closed}, "ProxyCommand false");
  EXPECT_EQ(silent.code(), ErrorCode::kHostBusy) << "or sshd is: a retry may help";
  EXPECT_TRUE(silent.message().starts_with("ProxyCommand false: ")) << silent.message();
  const Status full = ExplainOpenssh(
      how, {"Warning: Permanently added 'j' (ED25519) to the list of known hosts.", closed, closed},
      "ProxyJump j");
  EXPECT_EQ(full.code(), ErrorCode::kHostBusy) << "those are ssh's own words";
}

TEST(CommandShellTest, RunsTheCommandWithAStreamAndKeepsItsStderr) {
  auto loop = std::move(*Loop::Create());
  RemoteStderr errors;
  const ShellArgv argv = [](const std::string& host, const std::string& command) {
    return LaunchAgentArgv(": {host}; sh -c", host, command);
  };
  const auto shell = MakeCommandShell(*loop, "test shell", argv, errors, ChildEnd::kItself);
  AgentStart running;
  Status how;
  std::string received;
  bool has_ended = false;
  shell->Run("h", "cat; echo lost >&2; exit 3", [&](Result<AgentStart> start) {
    ASSERT_TRUE(start.ok()) << start.status().ToString();
    running = std::move(*start);
    running.process->OnExit([&](Status status) {
      how = std::move(status);
      has_ended = true;
    });
    StreamFunctions handlers;
    handlers.on_data = [&](ByteView bytes) {
      received += bytes;
      if (received == "ping") loop->Post([&] { running.stream.reset(); });
    };
    StartStream(*running.stream, std::move(handlers));
    running.stream->Write("ping");
  });
  ASSERT_TRUE(RunUntil(*loop, [&] { return has_ended; }));
  EXPECT_EQ(received, "ping");
  ExpectSays(how.message(), {"test shell", "code 3"});
  EXPECT_EQ(errors.LinesOf("h"), Words{"lost"}) << "all of stderr is there before the end is told";
}

TEST(CommandShellTest, WhatHangsIsEndedWithAllItStarted) {
  auto loop = std::move(*Loop::Create());
  RemoteStderr errors;
  const ShellArgv argv = [](const std::string& host, const std::string& command) {
    return LaunchAgentArgv(": {host}; sh -c", host, command);
  };
  auto shell = MakeCommandShell(*loop, "test shell", argv, errors, ChildEnd::kDropped);
  AgentStart running;
  std::string received;
  shell->Run("h", "sleep 1000 & echo $!; wait", [&](Result<AgentStart> start) {
    ASSERT_TRUE(start.ok()) << start.status().ToString();
    running = std::move(*start);
    StreamFunctions handlers;
    handlers.on_data = [&](ByteView bytes) { received += bytes; };
    StartStream(*running.stream, std::move(handlers));
  });
  ASSERT_TRUE(RunUntil(*loop, [&] { return received.ends_with('\n'); }));
  const auto sleeper = ParseInteger<pid_t>(Trimmed(received));
  ASSERT_TRUE(sleeper) << received;
  const UniqueFd end = OpenPidFd(*sleeper);
  ASSERT_TRUE(end.is_valid());
  running.process.reset();
  shell.reset();
  EXPECT_TRUE(AwaitEnd(end.get(), std::chrono::seconds(60)));
}

TEST(CommandShellTest, AProgramThatIsNotThereIsAnError) {
  auto loop = std::move(*Loop::Create());
  RemoteStderr errors;
  const ShellArgv argv = [](const std::string&, const std::string&) {
    return Words{"/no/such/ssh"};
  };
  const auto shell = MakeCommandShell(*loop, "", argv, errors, ChildEnd::kItself);
  Status seen;
  shell->Run("h", "x", [&](Result<AgentStart> start) { seen = std::move(start).status(); });
  ASSERT_TRUE(RunUntil(*loop, [&] { return !seen.ok(); }));
  EXPECT_EQ(seen.code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(seen.message().find("/no/such/ssh"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
