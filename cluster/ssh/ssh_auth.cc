#include "cluster/ssh/ssh_auth.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/ssh/known_hosts.h"
#include "cluster/ssh/ssh_agent.h"
#include "cluster/ssh/ssh_identity.h"

namespace hvdray {
namespace {

// sshd's LoginGraceTime; a person types slower than a key signs.
constexpr auto kPromptTime = std::chrono::seconds(120);

class Authentication {
 public:
  Authentication(SshSession& session, const SshSettings& settings, const SshPrompt& prompt,
                 const SshLimit& limit)
      : session_(session), settings_(settings), prompt_(prompt), limit_(limit) {}

  Status Run() {
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
    if (prompt_) TryPrompts();
    if (is_in_) return {};
    return broken_.ok() ? Failure() : broken_;
  }

 private:
  bool is_over() const { return is_in_ || !broken_.ok(); }

  /// Takes the outcome of one try. Anything but a refusal ends them all.
  void Note(Status status, std::string what) {
    tried_.push_back(std::move(what));
    if (status.ok()) {
      is_in_ = true;
    } else if (status.code() != ErrorCode::kAuthenticationFailed) {
      // The host hangs up after its number of tries: that is a refusal, too.
      broken_ = status.code() == ErrorCode::kHandshakeFailed ? Failure(status.message()) : status;
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
    Result<SshAgent> agent = SshAgent::Connect(settings_.identity_agent, limit_);
    Result<std::vector<SshAgentKey>> keys =
        agent.ok() ? agent->Keys(limit_) : Result<std::vector<SshAgentKey>>(agent.status());
    if (!keys.ok()) {
      left_out_.push_back(keys.status().message());
      return;
    }
    agent_ = std::move(*agent);
    agent_keys_ = std::move(*keys);
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
      const SshKeyType type = SshKeyTypeOf(AlgorithmOfBlob(key.blob));
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
    } else if (identity.facts.is_encrypted) {
      // Tried later by the agent, if it has it.
      if (HasAgentKey(identity.facts.public_blob)) return;
      left_out_.push_back(fmt::format("{} (it is encrypted and no agent holds it: ssh-add {})",
                                      identity.path, identity.path));
    } else {
      if (!identity.facts.public_blob.empty()) tried_blobs_.push_back(identity.facts.public_blob);
      Note(session_.TryPrivateKey(settings_.user, identity.text, limit_), identity.path);
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

  void TryPrompts() {
    if (is_over()) return;
    const std::string methods = session_.AuthenticationMethods(settings_.user, limit_);
    const std::string who = fmt::format("{}@{}", settings_.user, settings_.host_name);
    const SshLimit patient = {std::chrono::steady_clock::now() + kPromptTime, limit_.cancel_fd};
    if (methods.find("keyboard-interactive") != std::string::npos &&
        settings_.allows_keyboard_interactive) {
      const SshPrompt ask = [&](const std::string& text, bool is_shown) {
        return prompt_(fmt::format("({}) {}", who, text), is_shown);
      };
      Note(session_.TryKeyboardInteractive(settings_.user, ask, patient), "keyboard-interactive");
    }
    if (is_over() || !settings_.allows_password || methods.find("password") == std::string::npos) {
      return;
    }
    const std::optional<std::string> password = prompt_(fmt::format("{}'s password: ", who), false);
    if (password) Note(session_.TryPassword(settings_.user, *password, patient), "password");
  }

  Status Failure(std::string_view last_words = {}) {
    std::sort(left_out_.begin(), left_out_.end());
    left_out_.erase(std::unique(left_out_.begin(), left_out_.end()), left_out_.end());
    std::string text = fmt::format("authentication as {} failed: ", settings_.user);
    text += tried_.empty() ? "there is no key to try"
                           : fmt::format("tried {}", fmt::join(tried_, ", "));
    if (!left_out_.empty()) text += fmt::format("; left out {}", fmt::join(left_out_, ", "));
    if (!last_words.empty()) text += fmt::format("; {}", last_words);
    const std::string methods =
        last_words.empty() ? session_.AuthenticationMethods(settings_.user, limit_) : "";
    if (!methods.empty()) text += fmt::format("; the host takes {}", methods);
    if (is_ssh_better_) {
      return {ErrorCode::kNotSupported, std::move(text), "--ssh-transport openssh"};
    }
    return {ErrorCode::kAuthenticationFailed, std::move(text),
            fmt::format("ssh-copy-id {}@{}, or name the right key with -i", settings_.user,
                        settings_.host_name)};
  }

  SshSession& session_;
  const SshSettings& settings_;
  const SshPrompt& prompt_;
  const SshLimit limit_;
  std::vector<SshIdentity> identities_;
  std::optional<SshAgent> agent_;
  std::vector<SshAgentKey> agent_keys_;
  std::vector<std::string> tried_;
  std::vector<std::string> left_out_;
  std::vector<std::string> tried_blobs_;
  bool is_ssh_better_ = false;
  bool is_in_ = false;
  Status broken_;
};

}  // namespace

Status AuthenticateSsh(SshSession& session, const SshSettings& settings, const SshPrompt& prompt,
                       const SshLimit& limit) {
  return Authentication(session, settings, prompt, limit).Run();
}

}  // namespace hvdray
