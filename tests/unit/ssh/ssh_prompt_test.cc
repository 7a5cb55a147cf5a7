// SPDX-License-Identifier: Apache-2.0
// Ways in that need a user, on a real sshd. Who is asked when: ssh_questions_test.cc.
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/unit/ssh/ssh_shell_harness.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

bool Has(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

class SshPromptTest : public SshShellTest {
 protected:
  void SetUp() override {
    SshShellTest::SetUp();
    options_.ask = [this](const TerminalQuestion& question) -> Result<Secret> {
      const std::lock_guard lock(mutex_);
      asked_.push_back(question.text);
      EXPECT_FALSE(question.is_shown);
      EXPECT_GE(question.cancel_fd, 0);
      if (answers_.empty()) return Status(ErrorCode::kCancelled, "cancelled");
      Secret answer(answers_.front());
      if (answers_.size() > 1) answers_.erase(answers_.begin());
      return answer;
    };
  }
  std::mutex mutex_;           // guards the rest: threads of the pool ask
  Words answers_ = {"right"};  // the last one again and again; none: nobody answers
  Words asked_;
};

/// With a password of its own for root, so for root only.
class SshPasswordTest : public SshPromptTest {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "a password of one's own for an sshd needs root";
    SshPromptTest::SetUp();
  }
};

TEST_F(SshPasswordTest, APasswordIsAskedForWhenThereIsSomebodyToAsk) {
  const LoopbackSshd sshd("PasswordAuthentication yes", LoopbackSshd::Shadow::kPrivate);
  Configure(sshd.port(), directory_ / "none");
  EXPECT_EQ(Output("echo in"), "in\n");
  EXPECT_EQ(asked_, Words{"root@127.0.0.1's password: "});
  EXPECT_EQ(Output("echo again"), "again\n");
  EXPECT_EQ(asked_.size(), 1u) << "it is kept for the job";
}

TEST_F(SshPasswordTest, AHostWhoseKeyHasChangedGetsNoPasswordAndNoAnswer) {
  for (const char* settings :
       {"PasswordAuthentication yes", "KbdInteractiveAuthentication yes\nUsePAM yes"}) {
    const LoopbackSshd good(settings, LoopbackSshd::Shadow::kPrivate);
    Configure(good.port(), directory_ / "none", "StrictHostKeyChecking no");
    EXPECT_EQ(Output("echo in"), "in\n");
    EXPECT_EQ(asked_.size(), 1u) << settings;

    // The same password is kept; the other one has another key in known_hosts.
    const LoopbackSshd other(settings, LoopbackSshd::Shadow::kPrivate);
    const std::string old = ReadFile(other.directory() / "client.pub").value();
    ASSERT_TRUE(WriteFileAtomically(directory_ / "known_hosts",
                                    fmt::format("[127.0.0.1]:{} {}", other.port(), old))
                    .ok());
    Configure(other.port(), directory_ / "none", "StrictHostKeyChecking no");
    const Status status = RunToFail("changed");
    EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
    EXPECT_TRUE(NamesFacts(status.message(), {"skipped passwords", "host key has changed"}))
        << status.message();
    EXPECT_EQ(asked_.size(), 1u) << "nobody was asked";

    Configure(other.port(), other.directory() / "client", "StrictHostKeyChecking no");
    EXPECT_EQ(Output("echo in"), "in\n") << "a key gives nothing away";
    shell_.reset();
    asked_.clear();
    std::filesystem::remove(directory_ / "known_hosts");
  }
}

TEST_F(SshPasswordTest, AWrongPasswordIsAskedForThreeTimes) {
  const LoopbackSshd sshd("PasswordAuthentication yes", LoopbackSshd::Shadow::kPrivate);
  Configure(sshd.port(), directory_ / "none");
  answers_ = {"wrong", "", "right"};
  EXPECT_EQ(Output("echo in"), "in\n");
  EXPECT_EQ(asked_.size(), 3u);
  shell_.reset();
  asked_.clear();
  answers_ = {"wrong", "worse", "worst", "right"};
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(Has(status, "tried password (3 times)")) << status.message();
  EXPECT_EQ(asked_.size(), 3u);
}

TEST_F(SshPasswordTest, WhoDoesNotAnswerIsNotAskedAgain) {
  const LoopbackSshd sshd(
      "PasswordAuthentication yes\nKbdInteractiveAuthentication yes\nUsePAM yes",
      LoopbackSshd::Shadow::kPrivate);
  Configure(sshd.port(), directory_ / "none");
  answers_.clear();
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(Has(status, "cancelled")) << status.message();
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(SshPasswordTest, NobodyIsAskedInBatchModeOrWhenAKeyIsEnough) {
  const LoopbackSshd sshd("PasswordAuthentication yes", LoopbackSshd::Shadow::kPrivate);
  Configure(sshd.port(), directory_ / "none", "BatchMode yes");
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(NamesFacts(status.message(), {"host accepts", "publickey,password"}))
      << status.message();
  Configure(sshd);
  EXPECT_EQ(Output("echo in"), "in\n");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(SshPasswordTest, NobodyIsAskedWhenTheSystemsSshMayHaveAKey) {
  const LoopbackSshd sshd("PasswordAuthentication yes", LoopbackSshd::Shadow::kPrivate);
  MakeSshKey(directory_ / "rsa", "rsa");
  MakeSshKey(directory_ / "wrong");
  Configure(sshd.port(), directory_ / "wrong", "IdentityFile " + (directory_ / "rsa"));
  EXPECT_EQ(RunToFail().code(), ErrorCode::kNotSupported);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(SshPasswordTest, QuestionsOfTheHostArePassedOn) {
  const LoopbackSshd sshd("KbdInteractiveAuthentication yes\nUsePAM yes",
                          LoopbackSshd::Shadow::kPrivate);
  Configure(sshd.port(), directory_ / "none");
  answers_ = {"wrong", "right"};
  EXPECT_EQ(Output("echo in"), "in\n");
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[0].rfind("(root@127.0.0.1) ", 0), 0u) << asked_[0];
  EXPECT_EQ(Output("echo again"), "again\n");
  EXPECT_EQ(asked_.size(), 2u) << "what asks for a password is told the one that was right";
}

TEST_F(SshPasswordTest, OneQuestionIsEnoughForManyHosts) {
  const LoopbackSshd sshd("PasswordAuthentication yes", LoopbackSshd::Shadow::kPrivate);
  Configure(sshd.port(), directory_ / "none");
  answers_ = {"wrong", "right"};
  std::vector<Result<AgentStart>> outcomes;
  for (int i = 0; i < 8; ++i) {
    shell().Run(fmt::format("host{}", i), "true",
                [&](Result<AgentStart> start) { outcomes.push_back(std::move(start)); });
  }
  ASSERT_TRUE(RunUntil(*loop_, [&] { return outcomes.size() == 8; }));
  for (const Result<AgentStart>& outcome : outcomes) {
    EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
  }
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(SshPasswordTest, AHostThatDidNotWaitForTheAnswerIsBusy) {
  LoopbackSshd sshd("PasswordAuthentication yes", LoopbackSshd::Shadow::kPrivate);
  Configure(sshd.port(), directory_ / "none");
  options_.ask = [&sshd](const TerminalQuestion&) {
    sshd.KillSessions();  // as its LoginGraceTime does
    return Secret("right");
  };
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kHostBusy) << status.ToString();
}

class SshPassphraseTest : public SshPromptTest {
 protected:
  /// The server takes this key only, which has the passphrase "right".
  void MakeLocked(const LoopbackSshd& sshd, const std::string& type = "ed25519") {
    const std::string path = directory_ / ("locked_" + type);
    MakeSshKey(path, type, "right");
    const std::string key = ReadFile(path + ".pub").value();
    ASSERT_TRUE(WriteFileAtomically(sshd.directory() / "authorized_keys", key).ok());
    Configure(sshd.port(), path);
  }
};

TEST_F(SshPassphraseTest, APassphraseOpensAnEncryptedKeyAndIsKeptForTheJob) {
  for (const char* type : {"ed25519", "ecdsa"}) {
    const LoopbackSshd sshd;
    MakeLocked(sshd, type);
    asked_.clear();
    answers_ = {"wrong", "right"};
    EXPECT_EQ(Output("echo in"), "in\n");
    const std::string text = fmt::format("{}@127.0.0.1: passphrase of {}: ", options_.user.name,
                                         directory_ / (std::string("locked_") + type));
    EXPECT_EQ(asked_, (Words{text, text}));
    EXPECT_EQ(Output("echo again"), "again\n");
    EXPECT_EQ(asked_.size(), 2u);
  }
}

TEST_F(SshPassphraseTest, AfterThreeWrongOnesTheKeyIsLeftOut) {
  const LoopbackSshd sshd;
  MakeLocked(sshd);
  answers_ = {"wrong"};
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(NamesFacts(status.message(), {"locked_ed25519", "wrong passphrase"}))
      << status.message();
  EXPECT_EQ(asked_.size(), 3u);
}

TEST_F(SshPassphraseTest, NobodyIsAskedForAKeyThatTheHostDoesNotTake) {
  const LoopbackSshd sshd;
  MakeLocked(sshd);
  MakeSshKey(directory_ / "other");
  const std::string key = ReadFile(directory_ / "other.pub").value();
  ASSERT_TRUE(WriteFileAtomically(sshd.directory() / "authorized_keys", key).ok());
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(asked_.empty()) << asked_[0];
}

TEST_F(SshPassphraseTest, NobodyIsAskedWhenAnotherKeyIsEnough) {
  const LoopbackSshd sshd;
  MakeSshKey(directory_ / "locked", "ed25519", "right");
  Configure(sshd, "IdentityFile " + (directory_ / "locked"));
  EXPECT_EQ(Output("echo in"), "in\n");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(SshPassphraseTest, ADamagedKeyIsLeftOutWithoutAQuestion) {
  const LoopbackSshd sshd;
  std::string key = ReadFile(sshd.directory() / "client").value();
  key.replace(key.size() - 120, 20, "AAAAAAAAAAAAAAAAAAAA");
  ASSERT_TRUE(WriteFileAtomically(directory_ / "damaged", key).ok());
  ASSERT_TRUE(RunToEnd({"chmod", "600", directory_ / "damaged"}));
  Configure(sshd.port(), directory_ / "damaged");
  EXPECT_EQ(RunToFail().code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(asked_.empty());
}

}  // namespace
}  // namespace hvdray
