// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_questions.h"

#include <chrono>
#include <utility>

namespace hvdray {

void SshQuestions::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  turn_free_.notify_all();
}

std::optional<Secret> SshAsker::TakeKept(const std::string& subject) {
  const std::lock_guard lock(questions_.mutex_);
  const auto found = questions_.kept_.find(subject);
  if (found == questions_.kept_.end() || given_[subject] == found->second.version) {
    return std::nullopt;
  }
  given_[subject] = found->second.version;
  return found->second.answer.Copy();
}

Status SshAsker::AwaitTurn() {
  std::unique_lock lock(questions_.mutex_);
  questions_.turn_free_.wait(
      lock, [this] { return questions_.is_closed_ || has_turn_ || !questions_.is_turn_taken_; });
  if (questions_.is_closed_) return {ErrorCode::kCancelled, "cancelled"};
  has_turn_ = questions_.is_turn_taken_ = true;
  return {};
}

void SshAsker::ReleaseTurn() {
  if (!has_turn_) return;
  const std::lock_guard lock(questions_.mutex_);
  has_turn_ = questions_.is_turn_taken_ = false;
  questions_.turn_free_.notify_one();
}

Result<Secret> SshAsker::Get(const std::string& subject, const TerminalQuestion& question) {
  subject_.clear();
  answer_ = {};
  if (std::optional<Secret> kept = TakeKept(subject)) return std::move(*kept);
  const auto begun = std::chrono::steady_clock::now();
  const Status turn = AwaitTurn();
  waited_ += std::chrono::steady_clock::now() - begun;
  HVDRAY_RETURN_IF_ERROR(turn);
  // Another connection may have got the answer meanwhile.
  if (std::optional<Secret> kept = TakeKept(subject)) {
    ReleaseTurn();
    return std::move(*kept);
  }
  if (!is_worth_asking_()) {
    return Status(ErrorCode::kHostBusy,
                  "the host closed the connection while the user answered for other hosts");
  }
  ++asked_;
  const auto shown = std::chrono::steady_clock::now();
  Result<Secret> answer = questions_.ask_(question);
  waited_ += std::chrono::steady_clock::now() - shown;
  if (answer.ok() && !subject.empty()) {
    subject_ = subject;
    answer_ = answer->Copy();
  }
  return answer;
}

void SshAsker::Keep() {
  if (!subject_.empty()) {
    const std::lock_guard lock(questions_.mutex_);
    questions_.kept_[subject_] = {std::move(answer_), ++questions_.last_version_};
    given_[subject_] = questions_.last_version_;
    subject_.clear();
  }
  ReleaseTurn();
}

}  // namespace hvdray
