// SPDX-License-Identifier: Apache-2.0
// One SSH connection that runs one command: the adapter of libssh2. libssh2 never touches the
// socket; it reads from and writes to buffers here. So it never sees a packet half sent, after
// which its API can only repeat the same call, and each system call moves many packets.
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

/// Answers a question of the host. `text`: the question; `is_shown`: echo the answer. nullopt: no
/// answer.
using SshPrompt = std::function<std::optional<Secret>(const std::string& text, bool is_shown)>;

/// Threads: one at a time; the blocking part may run on another thread than the rest.
class SshSession {
 public:
  /// Takes over the connected `socket` and makes it non-blocking. Errors: kOutOfResources, kSystem.
  static Result<std::unique_ptr<SshSession>> Create(UniqueFd socket);
  /// Sends a disconnect message if it need not wait, and closes the socket.
  ~SshSession();
  SshSession(const SshSession&) = delete;
  SshSession& operator=(const SshSession&) = delete;

  // First part: blocks, within the limit. Each call may also return kConnectTimeout, kCancelled, or
  // kHandshakeFailed with the host's last message when the host closes the connection.

  /// Exchanges keys; compression stays off. `known`: algorithms of host keys to prefer, as far as
  /// they are among those offered. Errors: kHandshakeFailed; kNotSupported: no algorithm is common,
  /// or the library can't complete the exchange that was agreed on.
  Status Handshake(const SshAlgorithms& offered, const std::vector<std::string>& known,
                   const SshLimit& limit);
  /// The host closed the connection without a reason, or because it is full.
  bool was_dropped() const;
  /// The host has hung up, even if received bytes are still unread. Does not block.
  bool HasPeerHungUp() const;
  /// The host's public key, in SSH's binary form. After Handshake().
  std::string host_key() const;

  // Each call tries one authentication method once. Errors: kAuthenticationFailed. libssh2's copies
  // of keys and answers are wiped.

  /// Errors: also kFileUnreadable: the key is damaged, or the passphrase is wrong.
  Status TryPrivateKey(const std::string& user, const std::string& key_text,
                       const Secret& passphrase, const SshLimit& limit);
  /// Gets the bytes to sign and returns the bare signature.
  using Signer = std::function<Result<std::string>(ByteView)>;
  Status TryPublicKey(const std::string& user, const std::string& blob, const Signer& sign,
                      const SshLimit& limit);
  Status TryPassword(const std::string& user, const Secret& password, const SshLimit& limit);
  Status TryKeyboardInteractive(const std::string& user, const SshPrompt& prompt,
                                const SshLimit& limit);
  /// The methods that the host accepts, "publickey,password"; empty: unknown.
  std::string AuthenticationMethods(const std::string& user, const SshLimit& limit);

  /// Has the login shell run `command`, without a terminal. Errors: kAgentStartFailed.
  Status Exec(const std::string& command, const SshLimit& limit);

  // Second part, after Exec(): never blocks.

  int fd() const { return socket_.get(); }
  /// Receives once from the socket, unless earlier bytes still wait for Read() or Write(). Returns
  /// true when bytes arrived. Never fails: see is_peer_gone().
  bool Receive();
  /// The peer closed the connection; received bytes may still be unread.
  bool is_peer_gone() const { return is_peer_gone_; }
  /// Sends as much as the socket accepts. Errors: kAgentLost: the connection is broken.
  Status Flush();
  size_t unsent_bytes() const { return out_.size() - out_sent_; }

  enum class Output : uint8_t { kStdout, kStderr };
  /// Copies received output to `buffer` and returns the number of bytes; 0: none now. Errors:
  /// kAgentLost, kProtocolError.
  Result<size_t> Read(Output output, char* buffer, size_t size);
  /// Queues bytes up to the host's window and returns their number. Errors: kAgentLost.
  Result<size_t> Write(ByteView bytes);
  /// Closes the command's stdin.
  void SendEof();
  /// Queues a keep-alive message, for which the host sends no reply.
  void SendKeepAlive();
  /// The command closed its outputs, and they were read to the end.
  bool is_at_end() const;
  /// How the command ended: ok for exit code 0, else kAgentLost with "exited with code 3" or "was
  /// killed by SIGKILL". nullopt before is_at_end() and before the host has reported it.
  std::optional<Status> Exit();

 private:
  struct Callbacks;
  class Wiping;
  explicit SshSession(UniqueFd socket) : socket_(std::move(socket)) {}
  Status Drive(const std::function<int()>& step, const SshLimit& limit, int& code);
  Status FlushAll(const SshLimit& limit);
  Status Tried(const Status& driven, int code, std::string_view what);
  Status Gone() const;
  Status ExchangeFailure(int code);
  std::string LastError() const;
  Status ChannelError(std::string_view what, int code) const;

  UniqueFd socket_;
  _LIBSSH2_SESSION* session_ = nullptr;  // owned
  _LIBSSH2_CHANNEL* channel_ = nullptr;  // owned by session_
  std::string in_;                       // received; libssh2 has taken in_taken_ bytes
  size_t in_taken_ = 0;
  std::string out_;  // to send; out_sent_ bytes are sent
  size_t out_sent_ = 0;
  std::string last_words_;   // the host's reason for disconnecting
  int last_reason_ = 0;      // and its number
  std::string first_words_;  // its first line, if that was not SSH
  bool has_received_ = false;
  bool is_peer_gone_ = false;
  bool is_write_broken_ = false;
  bool is_ready_ = false;               // the handshake is done
  bool is_ending_ = false;              // libssh2's reads fail, so that it doesn't wait
  std::optional<std::string> methods_;  // asked once: libssh2 1.10 loses its last answer
  bool was_dropped_ = false;
  bool is_wiping_ = false;  // libssh2 may free secrets: wipe all memory that it frees
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_SESSION_H_
