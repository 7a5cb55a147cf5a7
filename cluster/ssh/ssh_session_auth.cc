// The ways in, one try each. Which are tried, and in which order: ssh_auth.cc.
#include <fmt/format.h>
#include <libssh2.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cluster/ssh/ssh_session.h"

namespace hvdray {
namespace {

unsigned int Size(std::string_view text) { return static_cast<unsigned int>(text.size()); }

/// libssh2 frees what we give it with free().
unsigned char* CopyForLibssh2(ByteView bytes) {
  auto* copy = static_cast<unsigned char*>(std::malloc(std::max<size_t>(bytes.size(), 1)));
  if (copy != nullptr && !bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  return copy;
}

struct SignCall {
  const SshSession::Signer& sign;
  Status failure;
};

int SignByAgent(LIBSSH2_SESSION*, unsigned char** signature, size_t* size,
                const unsigned char* data, size_t data_size, void** abstract) {
  auto* call = static_cast<SignCall*>(*abstract);
  const Result<std::string> signed_bytes =
      call->sign(ByteView(reinterpret_cast<const char*>(data), data_size));
  if (!signed_bytes.ok()) {
    call->failure = signed_bytes.status();
    return -1;
  }
  *signature = CopyForLibssh2(*signed_bytes);
  *size = signed_bytes->size();
  return *signature == nullptr ? -1 : 0;
}

/// keyboard-interactive has no room for a parameter but the session's, which the buffers need.
thread_local const SshPrompt* current_prompt = nullptr;

void AnswerPrompts(const char* name, int name_size, const char* instruction, int instruction_size,
                   int count, const LIBSSH2_USERAUTH_KBDINT_PROMPT* prompts,
                   LIBSSH2_USERAUTH_KBDINT_RESPONSE* responses, void**) {
  const auto text = [](const char* bytes, int size) {
    return bytes == nullptr || size <= 0 ? std::string()
                                         : std::string(bytes, static_cast<size_t>(size));
  };
  std::string head = text(name, name_size);
  for (const std::string& part : {text(instruction, instruction_size)}) {
    head += (head.empty() || part.empty() ? "" : "\n") + part;
  }
  for (int i = 0; i < count; ++i) {
    std::string question =
        text(reinterpret_cast<const char*>(prompts[i].text), static_cast<int>(prompts[i].length));
    if (i == 0 && !head.empty()) question.insert(0, head + "\n");
    const Secret answer = (*current_prompt)(question, prompts[i].echo != 0).value_or(Secret());
    responses[i].text = reinterpret_cast<char*>(CopyForLibssh2(answer.view()));
    responses[i].length = responses[i].text == nullptr ? 0 : Size(answer.view());
  }
}

/// libssh2's words for a key that it could not read, as against one that the host refused.
bool IsKeyUnreadable(int code) {
  return code != 0 && code != LIBSSH2_ERROR_AUTHENTICATION_FAILED &&
         code != LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED;
}

}  // namespace

class SshSession::Wiping {
 public:
  explicit Wiping(SshSession& session) : session_(session) { session_.is_wiping_ = true; }
  ~Wiping() { session_.is_wiping_ = false; }
  Wiping(const Wiping&) = delete;
  Wiping& operator=(const Wiping&) = delete;

 private:
  SshSession& session_;
};

Status SshSession::Tried(const Status& driven, int code, std::string_view what) {
  if (!driven.ok()) return driven;
  if (code == 0) return {};
  return {ErrorCode::kAuthenticationFailed, fmt::format("{}: {}", what, LastError())};
}

Status SshSession::TryPrivateKey(const std::string& user, const std::string& key_text,
                                 const Secret& passphrase, const SshLimit& limit) {
  const Wiping wiping(*this);
  int code = 0;
  const Status driven = Drive(
      [&] {
        return ::libssh2_userauth_publickey_frommemory(session_, user.data(), user.size(), nullptr,
                                                       0, key_text.data(), key_text.size(),
                                                       passphrase.c_str());
      },
      limit, code);
  if (driven.ok() && IsKeyUnreadable(code)) {
    return {ErrorCode::kFileUnreadable, fmt::format("key file: {}", LastError())};
  }
  return Tried(driven, code, "key file");
}

Status SshSession::TryPublicKey(const std::string& user, const std::string& blob,
                                const Signer& sign, const SshLimit& limit) {
  SignCall call{sign, {}};
  void* abstract = &call;
  int code = 0;
  const Status driven = Drive(
      [&] {
        return ::libssh2_userauth_publickey(session_, user.c_str(),
                                            reinterpret_cast<const unsigned char*>(blob.data()),
                                            blob.size(), SignByAgent, &abstract);
      },
      limit, code);
  if (driven.ok() && !call.failure.ok()) {
    return std::move(call.failure).WithCode(ErrorCode::kAuthenticationFailed);
  }
  return Tried(driven, code, "agent's key");
}

Status SshSession::TryPassword(const std::string& user, const Secret& password,
                               const SshLimit& limit) {
  const Wiping wiping(*this);
  int code = 0;
  const Status driven = Drive(
      [&] {
        return ::libssh2_userauth_password_ex(session_, user.data(), Size(user), password.c_str(),
                                              Size(password.view()), nullptr);
      },
      limit, code);
  return Tried(driven, code, "password");
}

Status SshSession::TryKeyboardInteractive(const std::string& user, const SshPrompt& prompt,
                                          const SshLimit& limit) {
  const Wiping wiping(*this);
  int code = 0;
  const Status driven = Drive(
      [&] {
        current_prompt = &prompt;
        return ::libssh2_userauth_keyboard_interactive_ex(session_, user.data(), Size(user),
                                                          AnswerPrompts);
      },
      limit, code);
  return Tried(driven, code, "keyboard-interactive");
}

std::string SshSession::AuthenticationMethods(const std::string& user, const SshLimit& limit) {
  if (methods_) return *methods_;
  const char* methods = nullptr;
  int code = 0;
  const Status driven = Drive(
      [&] {
        methods = ::libssh2_userauth_list(session_, user.data(), Size(user));
        return methods != nullptr ? 0 : ::libssh2_session_last_errno(session_);
      },
      limit, code);
  methods_ = driven.ok() && methods != nullptr ? methods : "";
  return *methods_;
}

}  // namespace hvdray
