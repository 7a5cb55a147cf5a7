// SPDX-License-Identifier: Apache-2.0
// A loop, a pool, and a shell that reaches one sshd by a configuration file of its own.
#ifndef HVDRAY_TESTS_UNIT_SSH_SSH_SHELL_HARNESS_H_
#define HVDRAY_TESTS_UNIT_SSH_SSH_SHELL_HARNESS_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cluster/ssh/ssh_shell.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/loopback_sshd.h"
#include "tests/fakes/stream_owner.h"

namespace hvdray {

class SshShellTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.user = CurrentSshUser(Environment());
    options_.overrides.config_file = directory_ / "config";
    options_.connect_timeout = std::chrono::minutes(1);
    options_.on_stderr = [this](const std::string&, std::string_view line) {
      stderr_lines_.emplace_back(line);
    };
  }

  /// `settings` come first, and so win.
  void Configure(int port, const std::string& key, const std::string& settings = "") {
    const std::string text = fmt::format(
        "{}\nHostName 127.0.0.1\nPort {}\nIdentityFile {}\nIdentityAgent none\n"
        "UserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking ask\n"
        "HashKnownHosts no\n",
        settings, port, key, directory_ / "known_hosts");
    ASSERT_TRUE(WriteFileAtomically(directory_ / "config", text).ok());
  }
  void Configure(const LoopbackSshd& sshd, const std::string& settings = "") {
    Configure(sshd.port(), sshd.directory() / "client", settings);
  }

  RemoteShell& shell() {
    if (shell_ == nullptr) shell_ = MakeLibssh2Shell(*loop_, *pool_, options_);
    return *shell_;
  }

  Result<AgentStart> Run(const std::string& command, const std::string& host = "node7") {
    std::optional<Result<AgentStart>> outcome;
    shell().Run(host, command, [&](Result<AgentStart> start) { outcome = std::move(start); });
    EXPECT_FALSE(outcome.has_value()) << "done must not be called from within Run()";
    EXPECT_TRUE(RunUntil(*loop_, [&] { return outcome.has_value(); }));
    if (!outcome) return Status(ErrorCode::kInternal, "no answer");
    return std::move(*outcome);
  }

  /// The error of a run that must fail.
  Status RunToFail(const std::string& host = "node7") {
    const Result<AgentStart> start = Run("true", host);
    EXPECT_FALSE(start.ok());
    EXPECT_FALSE(start.status().message().starts_with(host)) << "the caller names it";
    return start.status();
  }

  /// Starts the stream and the process of `start`, both noting what they see.
  void Follow(Result<AgentStart> start) {
    ASSERT_TRUE(start.ok()) << start.status().ToString();
    stream_ = std::move(start->stream);
    process_ = std::move(start->process);
    process_->OnExit([this](Status how) { exit_ = std::move(how); });
    StartStream(*stream_, {.on_data = [this](ByteView bytes) { got_ += bytes; },
                           .on_drained = [this] { ++drained_; },
                           .on_closed = [this](Status status) { closed_ = std::move(status); }});
  }

  /// Runs to the end, and returns what the command wrote.
  std::string Output(const std::string& command) {
    got_.clear();
    closed_.reset();
    exit_.reset();
    Follow(Run(command));
    EXPECT_TRUE(RunUntil(*loop_, [this] { return closed_ && exit_; })) << command;
    return got_;
  }

  TempDirectory directory_;
  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  std::unique_ptr<BlockingPool> pool_ = std::make_unique<BlockingPool>(*loop_);
  Libssh2ShellOptions options_;
  std::unique_ptr<RemoteShell> shell_;
  std::vector<std::string> stderr_lines_;
  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<AgentProcess> process_;
  std::string got_;
  int drained_ = 0;
  std::optional<Status> closed_;
  std::optional<Status> exit_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_SSH_SSH_SHELL_HARNESS_H_
