// One SSH connection that runs one command: the adapter of libssh2. libssh2 never touches the
// socket: it takes bytes from and gives bytes to buffers here, so that no packet of its is ever
// half sent (its API cannot go on with anything else then) and each system call moves many packets.
#ifndef HVDRAY_CLUSTER_SSH_SSH_SESSION_H_
#define HVDRAY_CLUSTER_SSH_SSH_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/types.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_target.h"

// The library's own names. NOLINTBEGIN(bugprone-reserved-identifier)
struct _LIBSSH2_SESSION;
struct _LIBSSH2_CHANNEL;
// NOLINTEND(bugprone-reserved-identifier)

namespace hvdray {

/// How a command ended.
struct SshExit {
  int code = 0;
  std::string signal;  ///< "KILL", "SEGV"; empty: it exited. `code` means nothing then.
};

/// The host's question: what to show, and whether the answer may be seen as it is typed. nullopt:
/// no answer.
using SshPrompt = std::function<std::optional<Secret>(const std::string& text, bool is_shown)>;

/// Threads: one at a time; the blocking part may run elsewhere than the rest.
class SshSession {
 public:
  /// Makes `socket` (connected) non-blocking. Errors: kOutOfResources, kSystem.
  static Result<std::unique_ptr<SshSession>> Create(UniqueFd socket);
  /// Says good-bye if that does not have to wait, and closes the socket.
  ~SshSession();
  SshSession(const SshSession&) = delete;
  SshSession& operator=(const SshSession&) = delete;

  // First part: blocks, within the limit. Any of these may return kConnectTimeout, kCancelled, or
  // kHandshakeFailed when the host closes the connection, with what it said last.

  /// Agrees on keys; compression stays off. `known`: the host keys wanted first, as far as they are
  /// among those offered. Errors: kHandshakeFailed also when there is no algorithm that both know.
  Status Handshake(const SshAlgorithms& offered, const std::vector<std::string>& known,
                   const SshLimit& limit);
  /// The host closed the connection and gave no reason, or the one that it is full.
  bool was_dropped() const;
  /// The host has hung up, whatever is still to be read. Does not block.
  bool HasPeerHungUp() const;
  /// The host's public key, in SSH's binary form. After Handshake().
  std::string host_key() const;

  // Each tries one way in. Errors: kAuthenticationFailed. What libssh2 holds of keys and answers
  // meanwhile is wiped.

  /// Errors: also kFileUnreadable: the key is damaged, or has another passphrase.
  Status TryPrivateKey(const std::string& user, const std::string& key_text,
                       const Secret& passphrase, const SshLimit& limit);
  /// `sign` gets the bytes to sign and returns the bare signature.
  using Signer = std::function<Result<std::string>(ByteView)>;
  Status TryPublicKey(const std::string& user, const std::string& blob, const Signer& sign,
                      const SshLimit& limit);
  Status TryPassword(const std::string& user, const Secret& password, const SshLimit& limit);
  Status TryKeyboardInteractive(const std::string& user, const SshPrompt& prompt,
                                const SshLimit& limit);
  /// What the host would accept, "publickey,password"; empty when it does not say.
  std::string AuthenticationMethods(const std::string& user, const SshLimit& limit);

  /// Has the login shell run `command`, without a terminal. Errors: kAgentStartFailed.
  Status Exec(const std::string& command, const SshLimit& limit);

  // Second part, after Exec(): never blocks.

  int fd() const { return socket_.get(); }
  /// Takes what the socket has, once, unless earlier bytes still wait for Read() or Write(). True
  /// when there were some. Errors: none: see is_peer_gone().
  bool Receive();
  /// The socket has ended; what came before may still have to be read.
  bool is_peer_gone() const { return is_peer_gone_; }
  /// Sends what the socket takes. Errors: kAgentLost: nothing can be sent any more.
  Status Flush();
  size_t unsent_bytes() const { return out_.size() - out_sent_; }

  enum class Output : uint8_t { kStdout, kStderr };
  /// Bytes read of what has been received; 0: none now. Errors: kAgentLost, kProtocolError.
  Result<size_t> Read(Output output, char* buffer, size_t size);
  /// Bytes taken for sending, as far as the host's window goes. Errors: as Read().
  Result<size_t> Write(ByteView bytes);
  /// The command's stdin ends.
  void SendEof();
  void SendKeepAlive();
  /// The command closed its outputs, and all of them has been read.
  bool is_at_end() const;
  /// Once the host has told how the command ended, and not before is_at_end().
  std::optional<SshExit> Exit();

 private:
  struct Callbacks;
  class Wiping;
  explicit SshSession(UniqueFd socket) : socket_(std::move(socket)) {}
  Status Drive(const std::function<int()>& step, const SshLimit& limit, int& code);
  Status FlushAll(const SshLimit& limit);
  Status Tried(const Status& driven, int code, std::string_view what);
  Status Gone() const;
  std::string LastError() const;
  Status ChannelError(std::string_view what, int code) const;

  UniqueFd socket_;
  _LIBSSH2_SESSION* session_ = nullptr;  // owned
  _LIBSSH2_CHANNEL* channel_ = nullptr;  // owned by session_
  std::string in_;                       // received, not yet taken by libssh2 from in_taken_ on
  size_t in_taken_ = 0;
  std::string out_;  // to be sent from out_sent_ on
  size_t out_sent_ = 0;
  std::string last_words_;   // the host's reason for disconnecting
  std::string first_words_;  // what it sent first, as far as it was no SSH
  bool has_received_ = false;
  bool is_peer_gone_ = false;
  bool is_write_broken_ = false;
  bool is_ready_ = false;   // keys are agreed
  bool is_ending_ = false;  // libssh2 gets errors instead of bytes: it must not wait any more
  std::optional<std::string> methods_;  // asked once: libssh2 1.10 loses its last answer
  bool was_dropped_ = false;
  bool is_wiping_ = false;  // libssh2 frees secrets among other things
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_SESSION_H_
