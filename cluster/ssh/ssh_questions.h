// What a person is asked on the way into the hosts of a job: one question at a time, and what was
// right once is tried on the other hosts before anybody is asked again. In memory only.
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
#include "base/types.h"

namespace hvdray {

struct SshQuestion {
  std::string text;       ///< Names user and host.
  bool is_shown = false;  ///< The answer may be seen as it is typed.
  int cancel_fd = -1;     ///< Readable: give up.
};

/// Asks a person. Blocks, for a bounded time. Errors: kCancelled, kNotSupported: no answer.
using AskPerson = std::function<Result<Secret>(const SshQuestion&)>;

/// Shared by all connections of a job. Threads: any.
class SshQuestions {
 public:
  explicit SshQuestions(AskPerson ask) : ask_(std::move(ask)) {}
  SshQuestions(const SshQuestions&) = delete;
  SshQuestions& operator=(const SshQuestions&) = delete;

  bool can_ask() const { return ask_ != nullptr; }
  /// Nobody waits for a turn any more.
  void Close();

 private:
  friend class SshAsker;
  struct Kept {
    Secret answer;
    uint64_t version;  ///< From 1.
  };

  const AskPerson ask_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable turn_free_;
  bool is_turn_taken_ = false;
  bool is_closed_ = false;
  uint64_t last_version_ = 0;
  std::map<std::string, Kept> kept_;
};

/// One connection's questions. Holds the turn from its first question until the answer has proved
/// right, or it goes: so the others never try an answer that may be wrong. Threads: one.
class SshAsker {
 public:
  /// `is_worth_asking`: looked at when its turn has come, which may take minutes.
  SshAsker(SshQuestions& questions, std::function<bool()> is_worth_asking)
      : questions_(questions), is_worth_asking_(std::move(is_worth_asking)) {}
  ~SshAsker() { ReleaseTurn(); }
  SshAsker(const SshAsker&) = delete;
  SshAsker& operator=(const SshAsker&) = delete;

  /// An answer to `subject` ("password of eva") that was right elsewhere and has not been given to
  /// this asker, else what the person says. No subject: always asks. Blocks. Errors: kCancelled,
  /// kNotSupported: no answer; kHostBusy: not worth asking any more.
  Result<Secret> Get(const std::string& subject, const SshQuestion& question);
  /// The last answer was right: others may have it.
  void Keep();

  /// Questions so far. What was right elsewhere is none.
  int asked() const { return asked_; }
  /// What was spent on waiting for a turn and for answers.
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
  std::map<std::string, uint64_t> given_;  // the versions that this asker got
  std::string subject_;                    // of the last answer, if a person gave it
  Secret answer_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_QUESTIONS_H_
