// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_session.h"

#include <fmt/format.h>
#include <libssh2.h>
#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kReceiveBytes = size_t{128} << 10;
// How much one host may send ahead: enough for 1 Gbit/s at 30 ms, and affordable for many hosts.
constexpr uint32_t kWindowBytes = 4u << 20;
constexpr uint32_t kPacketBytes = 32768;
constexpr size_t kMaxShownWords = 200;
constexpr const char* kOpensshHint = "--ssh-transport openssh";

void InitLibrary() {
  static std::once_flag once;
  std::call_once(once, [] { HVDRAY_CHECK(::libssh2_init(0) == 0); });
}

unsigned int Size(std::string_view text) { return static_cast<unsigned int>(text.size()); }

/// Allocates with malloc(), since libssh2 frees our buffers with free().
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

/// keyboard-interactive passes no parameter but the session's, which the buffers use.
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

/// libssh2 could not read the key; false: the host refused it.
bool IsKeyUnreadable(int code) {
  return code != 0 && code != LIBSSH2_ERROR_AUTHENTICATION_FAILED &&
         code != LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED;
}

}  // namespace

struct SshSession::Callbacks {
  static LIBSSH2_RECV_FUNC(Receive) {
    (void)socket;
    (void)flags;
    auto* self = static_cast<SshSession*>(*abstract);
    if (self->is_ending_) return -ECONNRESET;
    const size_t size = std::min(length, self->in_.size() - self->in_taken_);
    if (size == 0) return -EAGAIN;
    std::memcpy(buffer, self->in_.data() + self->in_taken_, size);
    self->in_taken_ += size;
    return static_cast<ssize_t>(size);
  }

  static LIBSSH2_SEND_FUNC(Send) {
    (void)socket;
    (void)flags;
    auto* self = static_cast<SshSession*>(*abstract);
    if (!self->is_write_broken_) self->out_.append(static_cast<const char*>(buffer), length);
    return static_cast<ssize_t>(length);
  }

  // C's allocator, plus wiping. NOLINTBEGIN(cppcoreguidelines-owning-memory)
  static LIBSSH2_ALLOC_FUNC(Allocate) {
    (void)abstract;
    return std::malloc(count);
  }

  static LIBSSH2_FREE_FUNC(Free) {
    const auto* self = static_cast<SshSession*>(*abstract);
    if (self->is_wiping_ && ptr != nullptr) ::explicit_bzero(ptr, ::malloc_usable_size(ptr));
    std::free(ptr);
  }

  static LIBSSH2_REALLOC_FUNC(Reallocate) {
    const auto* self = static_cast<SshSession*>(*abstract);
    if (!self->is_wiping_ || ptr == nullptr) return std::realloc(ptr, count);
    void* moved = std::malloc(count);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, ptr, std::min(count, ::malloc_usable_size(ptr)));
    Free(ptr, abstract);
    return moved;
  }
  // NOLINTEND(cppcoreguidelines-owning-memory)

  static LIBSSH2_DISCONNECT_FUNC(Disconnect) {
    (void)session;
    (void)language;
    (void)language_len;
    auto* self = static_cast<SshSession*>(*abstract);
    self->last_reason_ = reason;
    const size_t size = message == nullptr ? 0 : static_cast<size_t>(std::max(message_len, 0));
    self->last_words_ = ShownText(std::string_view(message, std::min(size, kMaxShownWords)));
  }
};

Result<std::unique_ptr<SshSession>> SshSession::Create(UniqueFd socket) {
  InitLibrary();
  HVDRAY_RETURN_IF_ERROR(SetNonBlocking(socket.get()));
  std::unique_ptr<SshSession> self(new SshSession(std::move(socket)));
  self->session_ = ::libssh2_session_init_ex(&Callbacks::Allocate, &Callbacks::Free,
                                             &Callbacks::Reallocate, self.get());
  if (self->session_ == nullptr) {
    return Status(ErrorCode::kOutOfResources, "no memory for an SSH session");
  }
  ::libssh2_session_set_blocking(self->session_, 0);
  const auto set = [&self](int type, auto* function) {
    ::libssh2_session_callback_set(self->session_, type, reinterpret_cast<void*>(function));
  };
  set(LIBSSH2_CALLBACK_RECV, &Callbacks::Receive);
  set(LIBSSH2_CALLBACK_SEND, &Callbacks::Send);
  set(LIBSSH2_CALLBACK_DISCONNECT, &Callbacks::Disconnect);
  return self;
}

SshSession::~SshSession() {
  if (session_ == nullptr) return;
  if (is_ready_ && !is_peer_gone_) {
    ::libssh2_session_disconnect(session_, "done");
    (void)Flush();
  }
  is_ending_ = true;
  // Every read fails now, so it should not wait; the loop has a bound just in case.
  for (int i = 0; i < 100 && ::libssh2_session_free(session_) == LIBSSH2_ERROR_EAGAIN; ++i) {
  }
}

std::string SshSession::LastError() const {
  char* text = nullptr;
  int size = 0;
  ::libssh2_session_last_error(session_, &text, &size, 0);
  return text == nullptr ? std::string() : ShownLine({text, static_cast<size_t>(size)});
}

Status SshSession::Gone() const {
  if (!last_words_.empty()) {
    return {ErrorCode::kHandshakeFailed, fmt::format("the host disconnected: {}", last_words_)};
  }
  if (!first_words_.empty()) {
    return {ErrorCode::kHandshakeFailed,
            fmt::format("the host closed the connection after '{}'", first_words_)};
  }
  return {ErrorCode::kHandshakeFailed, "the host closed the connection"};
}

bool SshSession::Receive() {
  if (is_peer_gone_ || in_taken_ < in_.size()) return false;
  in_.resize(kReceiveBytes);
  in_taken_ = 0;
  const ssize_t n = ::recv(socket_.get(), in_.data(), in_.size(), 0);
  const int error = errno;
  in_.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (n == 0 || (n < 0 && error != EAGAIN && error != EINTR)) is_peer_gone_ = true;
  if (n > 0 && !std::exchange(has_received_, true) && !in_.starts_with("SSH-")) {
    first_words_ = ShownText(in_.substr(0, std::min(in_.find_first_of("\r\n"), kMaxShownWords)));
  }
  return n > 0;
}

Status SshSession::Flush() {
  while (!is_write_broken_ && out_sent_ < out_.size()) {
    const ssize_t n =
        ::send(socket_.get(), out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL);
    if (n >= 0) {
      out_sent_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      return {};
    } else if (errno != EINTR) {
      is_write_broken_ = true;
    }
  }
  out_.clear();
  out_sent_ = 0;
  if (is_write_broken_) return {ErrorCode::kAgentLost, "the SSH connection is lost"};
  return {};
}

Status SshSession::FlushAll(const SshLimit& limit) {
  // Ignores send errors: the host may have sent the reason, and reading finds it.
  while (Flush().ok() && unsent_bytes() > 0) {
    HVDRAY_RETURN_IF_ERROR(WaitForFd(socket_.get(), POLLOUT, limit));
  }
  return {};
}

Status SshSession::Drive(const std::function<int()>& step, const SshLimit& limit, int& code) {
  for (;;) {
    code = step();
    HVDRAY_RETURN_IF_ERROR(FlushAll(limit));
    if (code == 0) return {};
    // Check this before libssh2's code, which may be anything in the middle of a step.
    const bool is_over = !last_words_.empty() || (is_peer_gone_ && in_taken_ == in_.size());
    if (is_over || code == LIBSSH2_ERROR_SOCKET_DISCONNECT) {
      was_dropped_ = true;
      return Gone();
    }
    if (code != LIBSSH2_ERROR_EAGAIN) return {};
    if (in_taken_ < in_.size()) continue;
    HVDRAY_RETURN_IF_ERROR(WaitForFd(socket_.get(), POLLIN, limit));
    Receive();
  }
}

Status SshSession::Handshake(const SshAlgorithms& offered, const std::vector<std::string>& known,
                             const SshLimit& limit) {
  const std::string all = "," + offered.host_keys + ",";
  std::string host_keys;
  for (const std::string& name : known) {
    if (all.find("," + name + ",") != std::string::npos) host_keys += name + ",";
  }
  host_keys += offered.host_keys;  // duplicate names are harmless
  const std::pair<int, const char*> preferences[] = {
      {LIBSSH2_METHOD_KEX, offered.key_exchanges.c_str()},
      {LIBSSH2_METHOD_HOSTKEY, host_keys.c_str()},
      {LIBSSH2_METHOD_CRYPT_CS, offered.ciphers.c_str()},
      {LIBSSH2_METHOD_CRYPT_SC, offered.ciphers.c_str()},
      {LIBSSH2_METHOD_MAC_CS, offered.macs.c_str()},
      {LIBSSH2_METHOD_MAC_SC, offered.macs.c_str()},
      {LIBSSH2_METHOD_COMP_CS, "none"},
      {LIBSSH2_METHOD_COMP_SC, "none"}};
  for (const auto& [method, names] : preferences) {
    if (::libssh2_session_method_pref(session_, method, names) != 0) {
      return {ErrorCode::kInternal, fmt::format("libssh2 knows none of {}", names)};
    }
  }
  int code = 0;
  Status driven =
      Drive([this] { return ::libssh2_session_handshake(session_, socket_.get()); }, limit, code);
  if (!driven.ok() && last_reason_ == SSH_DISCONNECT_KEY_EXCHANGE_FAILED) {
    return {ErrorCode::kNotSupported, driven.message(), kOpensshHint};
  }
  if (!driven.ok()) return driven;
  if (code != 0) return ExchangeFailure(code);
  is_ready_ = true;
  return {};
}

/// The host has not disconnected: the library itself ended the handshake.
Status SshSession::ExchangeFailure(int code) {
  if (code == LIBSSH2_ERROR_KEX_FAILURE) {
    return {ErrorCode::kNotSupported,
            "libssh2 and the host have no key exchange, host key type, cipher or MAC in common",
            kOpensshHint};
  }
  if (code == LIBSSH2_ERROR_KEY_EXCHANGE_FAILURE) {
    return {ErrorCode::kNotSupported, LastError(), kOpensshHint};
  }
  was_dropped_ = is_peer_gone_;
  const std::string words = first_words_.empty() ? "" : fmt::format(" ('{}')", first_words_);
  return {ErrorCode::kHandshakeFailed, fmt::format("{}{}", LastError(), words),
          "libssh2 may not support this host: --ssh-transport openssh"};
}

bool SshSession::was_dropped() const {
  if (!was_dropped_ || !last_words_.empty()) return false;
  // sshd's messages for MaxStartups and PerSourcePenalties. Other texts are not from sshd.
  return first_words_.empty() || first_words_.find("MaxStartups") != std::string::npos ||
         first_words_.find("Not allowed at this time") != std::string::npos;
}

bool SshSession::HasPeerHungUp() const {
  pollfd fd = {.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return is_peer_gone_ || ::poll(&fd, 1, 0) != 0;
}

std::string SshSession::host_key() const {
  size_t size = 0;
  int type = 0;
  const char* key = ::libssh2_session_hostkey(session_, &size, &type);
  return key == nullptr ? std::string() : std::string(key, size);
}

Status SshSession::Exec(const std::string& command, const SshLimit& limit) {
  int code = 0;
  HVDRAY_RETURN_IF_ERROR(Drive(
      [this] {
        channel_ = ::libssh2_channel_open_ex(session_, "session", 7, kWindowBytes, kPacketBytes,
                                             nullptr, 0);
        return channel_ != nullptr ? 0 : ::libssh2_session_last_errno(session_);
      },
      limit, code));
  if (code != 0) return ChannelError("open a channel", code);
  HVDRAY_RETURN_IF_ERROR(Drive(
      [&] {
        return ::libssh2_channel_process_startup(channel_, "exec", 4, command.data(),
                                                 static_cast<unsigned int>(command.size()));
      },
      limit, code));
  return code == 0 ? Status() : ChannelError("run a command", code);
}

Status SshSession::ChannelError(std::string_view what, int code) const {
  return {ErrorCode::kAgentStartFailed,
          fmt::format("{}: {} (libssh2 {})", what, LastError(), code)};
}

Result<size_t> SshSession::Read(Output output, char* buffer, size_t size) {
  const int stream = output == Output::kStderr ? SSH_EXTENDED_DATA_STDERR : 0;
  const ssize_t n = ::libssh2_channel_read_ex(channel_, stream, buffer, size);
  if (n >= 0) return static_cast<size_t>(n);
  if (n == LIBSSH2_ERROR_EAGAIN) return size_t{0};
  if (n == LIBSSH2_ERROR_SOCKET_DISCONNECT) {
    return Status(ErrorCode::kAgentLost, Gone().message());
  }
  return Status(ErrorCode::kProtocolError, fmt::format("SSH: {}", LastError()));
}

Result<size_t> SshSession::Write(ByteView bytes) {
  if (is_write_broken_) return Status(ErrorCode::kAgentLost, "the SSH connection is lost");
  const ssize_t n = ::libssh2_channel_write_ex(channel_, 0, bytes.data(), bytes.size());
  if (n >= 0) return static_cast<size_t>(n);
  if (n == LIBSSH2_ERROR_EAGAIN) return size_t{0};
  return Status(ErrorCode::kAgentLost, fmt::format("SSH: {}", LastError()));
}

void SshSession::SendEof() { ::libssh2_channel_send_eof(channel_); }

void SshSession::SendKeepAlive() {
  // The caller has the clock; libssh2's interval only has to be shorter. Ask for no reply: libssh2
  // 1.10 would never free the replies.
  ::libssh2_keepalive_config(session_, 0, 2);
  int next_s = 0;
  ::libssh2_keepalive_send(session_, &next_s);
}

bool SshSession::is_at_end() const { return ::libssh2_channel_eof(channel_) == 1; }

std::optional<Status> SshSession::Exit() {
  if (!is_at_end() || ::libssh2_channel_wait_closed(channel_) != 0) return std::nullopt;
  char* signal = nullptr;
  size_t size = 0;
  // Read the signal first: the exit status of a killed command is 0.
  ::libssh2_channel_get_exit_signal(channel_, &signal, &size, nullptr, nullptr, nullptr, nullptr);
  if (signal != nullptr) {
    const std::string name = ShownText({signal, size});
    ::libssh2_free(session_, signal);
    if (!name.empty()) return Status(ErrorCode::kAgentLost, "was killed by SIG" + name);
  }
  const int code = ::libssh2_channel_get_exit_status(channel_);
  if (code == 0) return Status();
  return Status(ErrorCode::kAgentLost, fmt::format("exited with code {}", code));
}

// Authentication methods, one try each. ssh_auth.cc decides which to try, and their order.

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
