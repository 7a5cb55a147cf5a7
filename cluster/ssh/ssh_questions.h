// SPDX-License-Identifier: Apache-2.0
// Questions to the user while a job logs in to its hosts. Asks one question at a time, and tries an
// answer that was right once on the other hosts before it asks again. Keeps answers in memory only.
#ifndef HVDRAY_CLUSTER_SSH_SSH_QUESTIONS_H_
#define HVDRAY_CLUSTER_SSH_SSH_QUESTIONS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/secret.h"
#include "base/terminal.h"
#include "base/types.h"

namespace hvdray {

/// Asks the user a question that names user and host. Blocks for a limited time. Errors:
/// kCancelled, kNotSupported: no answer.
using AskUser = std::function<Result<Secret>(const TerminalQuestion&)>;

/// The turn to ask, and the known answers, shared by all connections of a job. Threads: any.
class SshQuestions {
 public:
  /// `ask`: empty: nobody can be asked.
  explicit SshQuestions(AskUser ask) : ask_(std::move(ask)) {}
  SshQuestions(const SshQuestions&) = delete;
  SshQuestions& operator=(const SshQuestions&) = delete;

  bool can_ask() const { return ask_ != nullptr; }
  /// Wakes all askers that wait for a turn; they fail with kCancelled.
  void Close();

 private:
  friend class SshAsker;
  struct Kept {
    Secret answer;
    uint64_t version;  ///< From 1.
  };

  const AskUser ask_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable turn_free_;
  bool is_turn_taken_ = false;
  bool is_closed_ = false;
  uint64_t last_version_ = 0;
  std::map<std::string, Kept> kept_;
};

/// The questions of one connection. Holds the turn from its first question until Keep() or its
/// destruction, so that other connections never try an answer that may be wrong. Threads: one.
class SshAsker {
 public:
  /// `questions` outlives the asker. `is_worth_asking`: called when its turn comes, which may take
  /// minutes.
  SshAsker(SshQuestions& questions, std::function<bool()> is_worth_asking)
      : questions_(questions), is_worth_asking_(std::move(is_worth_asking)) {}
  ~SshAsker() { ReleaseTurn(); }
  SshAsker(const SshAsker&) = delete;
  SshAsker& operator=(const SshAsker&) = delete;

  /// Returns a known answer to `subject` ("password of eva") that this asker has not had yet, or
  /// else asks the user. Empty subject: always asks. Blocks. Errors: kCancelled; kNotSupported: no
  /// answer; kHostBusy: no longer worth asking.
  Result<Secret> Get(const std::string& subject, const TerminalQuestion& question);
  /// Reports the last answer as right, so that other askers get it. Releases the turn.
  void Keep();

  /// Number of questions to the user so far; known answers don't count.
  int asked() const { return asked_; }
  /// Time spent waiting for turns and for answers.
  Duration waited() const { return waited_; }

 private:
  std::optional<Secret> TakeKept(const std::string& subject);
  Status AwaitTurn();
  void ReleaseTurn();

  SshQuestions& questions_;
  const std::function<bool()> is_worth_asking_;
  bool has_turn_ = false;
  int asked_ = 0;
  Duration waited_{};
  std::map<std::string, uint64_t> given_;  // the versions that this asker had
  std::string subject_;                    // of the last answer, if the user gave it
  Secret answer_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_QUESTIONS_H_
