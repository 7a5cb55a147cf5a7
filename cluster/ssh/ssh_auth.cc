// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_auth.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cluster/ssh/known_hosts.h"
#include "cluster/ssh/ssh_agent.h"
#include "cluster/ssh/ssh_identity.h"

namespace hvdray {
namespace {

constexpr auto kTypingTime = std::chrono::minutes(2);
// Hosts delay the answer to a wrong password by some seconds.
constexpr auto kJudgingTime = std::chrono::seconds(30);

/// password and keyboard-interactive share one subject, since many hosts accept the password by
/// either.
std::string Password(const std::string& user) { return "password of " + user; }

bool IsPasswordQuestion(const std::string& text) {
  return text.find("assword") != std::string::npos;
}

/// "password (3 times)" for three in a row.
std::vector<std::string> Counted(const std::vector<std::string>& words) {
  std::vector<std::string> counted;
  for (size_t i = 0; i < words.size();) {
    size_t end = i;
    while (end < words.size() && words[end] == words[i]) ++end;
    counted.push_back(end - i == 1 ? words[i] : fmt::format("{} ({} times)", words[i], end - i));
    i = end;
  }
  return counted;
}

/// "a, b, c and 4 more".
std::string Listed(const std::vector<std::string>& items) {
  constexpr size_t kMost = 3;
  const std::span<const std::string> shown = std::span(items).first(std::min(items.size(), kMost));
  const size_t more = items.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

class Authentication {
 public:
  Authentication(SshSession& session, const SshSettings& settings, SshQuestions& questions,
                 SshLimit& limit)
      : session_(session), settings_(settings), questions_(questions), limit_(limit) {}

  Status Run() {
    if (settings_.allows_public_key) HVDRAY_RETURN_IF_ERROR(TryKeys());
    if (CanAsk()) Ask();
    if (is_in_) return {};
    if (broken_.ok() && session_.was_dropped() && refusals_ == 0) {
      return {ErrorCode::kHandshakeFailed, "the host closed the connection"};
    }
    return broken_.ok() ? Failure() : broken_;
  }

 private:
  Status TryKeys() {
    for (const std::string& path : settings_.identity_files) {
      identities_.push_back(LoadSshIdentity(path));
    }
    if (settings_.has_explicit_identity) HVDRAY_RETURN_IF_ERROR(CheckExplicit());
    OpenAgent();
    if (settings_.has_explicit_identity) Try(identities_[0]);
    const size_t rest = settings_.has_explicit_identity ? 1 : 0;
    TryAgent(/*is_listed=*/true);
    if (!settings_.identities_only) TryAgent(/*is_listed=*/false);
    for (size_t i = rest; i < identities_.size(); ++i) Try(identities_[i]);
    return {};
  }

  bool is_over() const { return is_in_ || !broken_.ok(); }

  /// Records the outcome of one try. Anything but a refusal ends all tries.
  void Note(const Status& status, std::string what) {
    tried_.push_back(std::move(what));
    if (status.ok()) {
      is_in_ = true;
    } else if (status.code() == ErrorCode::kAuthenticationFailed) {
      ++refusals_;
    } else {
      // A host that hangs up after its maximum of tries has refused, too.
      const bool is_dropped = session_.was_dropped() && refusals_ == 0;
      const bool is_refusal = status.code() == ErrorCode::kHandshakeFailed && !is_dropped;
      broken_ = is_refusal ? Failure(status.message()) : status;
    }
  }

  Status CheckExplicit() const {
    const SshIdentity& identity = identities_[0];
    if (!identity.exists) {
      return {ErrorCode::kFileUnreadable, fmt::format("{}: no such private key", identity.path)};
    }
    return identity.problem;
  }

  void OpenAgent() {
    if (settings_.identity_agent.empty()) return;
    Result<SshAgentWithKeys> opened = ConnectToAgent(settings_.identity_agent, limit_);
    if (!opened.ok()) {
      const bool is_silent = opened.status().code() == ErrorCode::kConnectTimeout;
      left_out_.push_back(is_silent
                              ? fmt::format("ssh-agent {} (no answer)", settings_.identity_agent)
                              : opened.status().message());
      is_agent_silent_ = true;
      return;
    }
    agent_ = std::move(opened->agent);
    agent_keys_ = std::move(opened->keys);
  }

  bool IsListed(const std::string& blob) const {
    return std::any_of(identities_.begin(), identities_.end(), [&](const SshIdentity& identity) {
      return identity.exists && identity.facts.public_blob == blob;
    });
  }

  void TryAgent(bool is_listed) {
    for (const SshAgentKey& key : agent_keys_) {
      if (is_over()) return;
      if (IsListed(key.blob) != is_listed || WasTried(key.blob)) continue;
      const SshKeyType type = ToSshKeyType(AlgorithmOfBlob(key.blob));
      if (type == SshKeyType::kUnknown || !CanSignWithLibssh2(type)) {
        LeaveOut(fmt::format("the agent's key {}", key.comment), type);
        continue;
      }
      const auto sign = [&](ByteView data) { return agent_->Sign(key.blob, data, limit_); };
      tried_blobs_.push_back(key.blob);
      Note(session_.TryPublicKey(settings_.user, key.blob, sign, limit_),
           fmt::format("the agent's key {} ({})", key.comment, HostKeyFingerprint(key.blob)));
    }
  }

  void Try(const SshIdentity& identity) {
    if (is_over() || !identity.exists || WasTried(identity.facts.public_blob)) return;
    if (!CanSignWithLibssh2(identity.facts.type)) {
      return LeaveOut(identity.path, identity.facts.type);
    }
    if (!identity.problem.ok()) {
      left_out_.push_back(identity.problem.message());
      Suggest(identity.problem.hint());
    } else if (identity.facts.is_encrypted) {
      // If the agent has this key, it is tried there.
      if (HasAgentKey(identity.facts.public_blob)) return;
      locked_.push_back(&identity);
    } else {
      if (!identity.facts.public_blob.empty()) tried_blobs_.push_back(identity.facts.public_blob);
      const Status status = session_.TryPrivateKey(settings_.user, identity.text, Secret(), limit_);
      if (status.code() == ErrorCode::kFileUnreadable) {
        left_out_.push_back(fmt::format("{} (libssh2 can't read it)", identity.path));
      } else {
        Note(status, identity.path);
      }
    }
  }

  bool HasAgentKey(const std::string& blob) const {
    return std::any_of(agent_keys_.begin(), agent_keys_.end(),
                       [&](const SshAgentKey& key) { return key.blob == blob; });
  }
  bool WasTried(const std::string& blob) const {
    return !blob.empty() &&
           std::find(tried_blobs_.begin(), tried_blobs_.end(), blob) != tried_blobs_.end();
  }

  void LeaveOut(std::string what, SshKeyType type) {
    left_out_.push_back(fmt::format("{} ({} key)", what, SshKeyTypeName(type)));
    is_ssh_better_ = is_ssh_better_ || type != SshKeyType::kUnknown;
  }

  /// No questions when the system's ssh may have a key for this host.
  bool CanAsk() const {
    return questions_.can_ask() && settings_.allows_questions && !is_ssh_better_ && !is_over();
  }

  void Ask() {
    for (const SshIdentity* identity : std::exchange(locked_, {})) {
      if (is_over() || !IsWanted(*identity)) continue;
      TryLocked(*identity);
    }
    if (is_over() || is_declined_) return;
    if (!settings_.password_veto.empty()) {
      left_out_.push_back(fmt::format("passwords ({})", settings_.password_veto));
      return;
    }
    const std::string methods = session_.AuthenticationMethods(settings_.user, limit_);
    SshAsker asker = NewAsker();
    if (settings_.allows_keyboard_interactive &&
        methods.find("keyboard-interactive") != std::string::npos) {
      TryKeyboardInteractive(asker);
    }
    if (is_over() || is_declined_ || !settings_.allows_password) return;
    if (methods.find("password") != std::string::npos) TryPassword(asker);
  }

  SshAsker NewAsker() {
    return {questions_, [this] { return !session_.HasPeerHungUp(); }};
  }

  /// Asks the host first: a passphrase for a key that it refuses would be useless.
  bool IsWanted(const SshIdentity& identity) {
    const std::string& blob = identity.facts.public_blob;
    if (blob.empty()) return true;
    bool is_wanted = false;
    const auto do_not_sign = [&is_wanted](ByteView) {
      is_wanted = true;
      return Result<std::string>(Status(ErrorCode::kAuthenticationFailed, "not yet"));
    };
    const Status status = session_.TryPublicKey(settings_.user, blob, do_not_sign, limit_);
    if (!is_wanted) Note(status, identity.path);
    return is_wanted;
  }

  void TryLocked(const SshIdentity& identity) {
    SshAsker asker = NewAsker();
    const std::string subject = "passphrase of " + identity.path;
    const std::string text = fmt::format("{}: passphrase of {}: ", Who(), identity.path);
    while (asker.asked() < settings_.max_questions && !is_over()) {
      const std::optional<Secret> passphrase = Get(asker, subject, text);
      if (!passphrase) return;
      const Status status =
          session_.TryPrivateKey(settings_.user, identity.text, *passphrase, limit_);
      if (status.code() == ErrorCode::kFileUnreadable) continue;
      asker.Keep();
      return Note(status, identity.path);
    }
    left_out_.push_back(fmt::format("{} (wrong passphrase)", identity.path));
  }

  void TryPassword(SshAsker& asker) {
    const std::string text = fmt::format("{}'s password: ", Who());
    while (asker.asked() < settings_.max_questions && !is_over()) {
      const std::optional<Secret> password = Get(asker, Password(settings_.user), text);
      if (!password) return;
      Note(session_.TryPassword(settings_.user, *password, Patient(kJudgingTime)), "password");
      if (is_in_) asker.Keep();
    }
  }

  void TryKeyboardInteractive(SshAsker& asker) {
    while (asker.asked() < settings_.max_questions && !is_over() && !is_declined_) {
      const int asked_before = asker.asked();
      bool has_kept = false;
      const SshPrompt answer = [&](const std::string& text, bool is_shown) {
        const bool is_password = !is_shown && IsPasswordQuestion(text);
        if (is_declined_) return std::optional<Secret>();
        std::optional<Secret> secret =
            Get(asker, is_password ? Password(settings_.user) : std::string(),
                fmt::format("({}) {}", Who(), text), is_shown);
        has_kept = has_kept || asker.asked() == asked_before;
        return secret;
      };
      // The user answers in the middle of the try, so its duration is not known beforehand.
      const SshLimit patient = Patient(settings_.max_questions * kTypingTime);
      Note(session_.TryKeyboardInteractive(settings_.user, answer, patient),
           "keyboard-interactive");
      if (is_in_) asker.Keep();
      // A host that asked nothing will not ask the next time either.
      if (asker.asked() == asked_before && !has_kept) return;
    }
  }

  /// nullopt: no answer, or no longer needed.
  std::optional<Secret> Get(SshAsker& asker, const std::string& subject, std::string text,
                            bool is_shown = false) {
    const Duration waited_before = asker.waited();
    Result<Secret> answer = asker.Get(
        subject, {.text = std::move(text), .is_shown = is_shown, .cancel_fd = limit_.cancel_fd});
    limit_.deadline += asker.waited() - waited_before;
    if (answer.ok()) return std::move(*answer);
    is_declined_ = true;
    if (answer.status().code() == ErrorCode::kHostBusy) {
      broken_ = answer.status();
    } else {
      left_out_.push_back(fmt::format("passwords ({})", answer.status().message()));
    }
    return std::nullopt;
  }

  std::string Who() const { return fmt::format("{}@{}", settings_.user, settings_.host_name); }
  SshLimit Patient(Duration time) const {
    return {std::max<TimePoint>(limit_.deadline, std::chrono::steady_clock::now() + time),
            limit_.cancel_fd};
  }

  Status Failure(std::string_view last_words = {}) {
    for (const SshIdentity* identity : std::exchange(locked_, {})) {
      left_out_.push_back(fmt::format("{} (encrypted and not in the agent)", identity->path));
      Suggest("ssh-add " + identity->path);
    }
    if (is_agent_silent_) Suggest("SSH_AUTH_SOCK (or IdentityAgent) names that agent: renew it");
    std::sort(left_out_.begin(), left_out_.end());
    left_out_.erase(std::unique(left_out_.begin(), left_out_.end()), left_out_.end());
    std::string text = fmt::format("authentication as {} failed: ", settings_.user);
    text += tried_.empty() ? "no key to try" : fmt::format("tried {}", Listed(Counted(tried_)));
    if (!left_out_.empty()) text += fmt::format("; skipped {}", Listed(left_out_));
    if (!last_words.empty()) text += fmt::format("; {}", last_words);
    const std::string methods =
        last_words.empty() ? session_.AuthenticationMethods(settings_.user, limit_) : "";
    if (!methods.empty()) text += fmt::format("; the host accepts {}", ShownText(methods, 200));
    if (is_ssh_better_) {
      return {ErrorCode::kNotSupported, std::move(text), "--ssh-transport openssh"};
    }
    return {ErrorCode::kAuthenticationFailed, std::move(text), Hint(methods)};
  }

  /// `methods`: those of the host, if known.
  std::string Hint(const std::string& methods) const {
    if (!remedy_.empty()) return remedy_;
    if (!settings_.allows_public_key) {
      return "the SSH configuration forbids keys for this host (PubkeyAuthentication, "
             "PreferredAuthentications)";
    }
    if (!methods.empty() && methods.find("publickey") == std::string::npos) {
      return "this host takes no keys: start hvdray at a terminal, where it can ask";
    }
    return fmt::format("ssh-copy-id {}{}@{}, or name the right key with -i",
                       settings_.port == 22 ? "" : fmt::format("-p {} ", settings_.port),
                       settings_.user, settings_.host_name);
  }

  /// Of several keys that could not be tried, the first counts.
  void Suggest(std::string remedy) {
    if (remedy_.empty()) remedy_ = std::move(remedy);
  }

  SshSession& session_;
  const SshSettings& settings_;
  SshQuestions& questions_;
  SshLimit& limit_;
  std::vector<SshIdentity> identities_;
  std::optional<SshAgent> agent_;
  std::vector<SshAgentKey> agent_keys_;
  std::vector<std::string> tried_;
  std::vector<std::string> left_out_;
  std::vector<std::string> tried_blobs_;
  std::vector<const SshIdentity*> locked_;  // in identities_: encrypted and in no agent
  int refusals_ = 0;
  std::string remedy_;  // for a key that could not be tried
  bool is_agent_silent_ = false;
  bool is_declined_ = false;  // the user gave no answer
  bool is_ssh_better_ = false;
  bool is_in_ = false;
  Status broken_;
};

}  // namespace

Status AuthenticateSsh(SshSession& session, const SshSettings& settings, SshQuestions& questions,
                       SshLimit& limit) {
  return Authentication(session, settings, questions, limit).Run();
}

}  // namespace hvdray
