// SPDX-License-Identifier: Apache-2.0
// A real sshd on 127.0.0.1 with keys of its own, for one test; gone with it, sessions and all.
#ifndef HVDRAY_TESTS_FAKES_LOOPBACK_SSHD_H_
#define HVDRAY_TESTS_FAKES_LOOPBACK_SSHD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {

/// Runs a program to its end; true when it exits with 0.
bool RunToEnd(const std::vector<std::string>& argv);

/// Makes `path` and `path`.pub with ssh-keygen.
void MakeSshKey(const std::string& path, const std::string& type = "ed25519",
                const std::string& passphrase = "");

/// A listening socket on 127.0.0.1 that never accepts; for silent servers and, closed, for ports
/// that refuse.
class LoopbackListener {
 public:
  LoopbackListener();
  int port() const { return port_; }
  int fd() const { return fd_.get(); }
  UniqueFd Accept() const;

 private:
  UniqueFd fd_;
  int port_ = 0;
};

class LoopbackSshd {
 public:
  /// `settings`: lines of sshd_config that come first, and so win.
  /// With kPrivate, root's password for this sshd alone is "right", by a view of /etc/shadow that
  /// nobody else has (needs root).
  enum class Shadow { kSystem, kPrivate };
  explicit LoopbackSshd(const std::string& settings = "", Shadow shadow = Shadow::kSystem);
  ~LoopbackSshd();
  LoopbackSshd(const LoopbackSshd&) = delete;
  LoopbackSshd& operator=(const LoopbackSshd&) = delete;

  int port() const { return port_; }
  /// Its directory: host_ed25519, host_ecdsa (keys), client (a key that it lets in),
  /// authorized_keys.
  const TempDirectory& directory() const { return directory_; }
  /// Kills each session (SIGKILL) and leaves the listener.
  void KillSessions() const;
  /// What it logged so far.
  std::string TakeLog();

 private:
  bool Start(const std::string& settings, Shadow shadow);

  TempDirectory directory_;
  UniqueFd log_;
  pid_t pid_ = -1;
  int port_ = 0;
};

/// A real ssh-agent with the keys given.
class LoopbackAgent {
 public:
  LoopbackAgent();
  ~LoopbackAgent();
  LoopbackAgent(const LoopbackAgent&) = delete;
  LoopbackAgent& operator=(const LoopbackAgent&) = delete;
  /// `passphrase`: of the key, if it has one.
  void Add(const std::string& key_path, const std::string& passphrase = "") const;
  std::string socket() const { return directory_ / "agent"; }

 private:
  TempDirectory directory_;
  pid_t pid_ = -1;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_LOOPBACK_SSHD_H_
