// SPDX-License-Identifier: Apache-2.0
// The dialogue with the shell of another host until the agent runs there: its lines, pure, and the
// stream that carries them. docs/ssh.md, "What is copied and left".
#ifndef HVDRAY_CLUSTER_TRANSPORT_AGENT_BOOTSTRAP_H_
#define HVDRAY_CLUSTER_TRANSPORT_AGENT_BOOTSTRAP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/byte_stream.h"
#include "base/types.h"

namespace hvdray {

/// What BootstrapCommand() needs to know.
struct BootstrapRequest {
  /// Names the staged file. AgentBuilds::stage_id(), so it changes with the bytes of any build.
  std::string stage_id;
  /// Staged agents are kept in its subdirectory hvdray-agents-UID; empty: in
  /// ${XDG_CACHE_HOME:-$HOME/.cache}/hvdray/agents-UID.
  std::string directory;
  /// Executed in place of a staged agent where the host has it, unless a user other than the
  /// login's own and root could have put it there; empty: none.
  std::string installed_path;
  std::vector<std::string> agent_arguments;
};

/// One line for the host's login shell (valid in sh, bash, zsh, csh, tcsh and fish). It becomes the
/// agent if the host has it; otherwise it prints one of:
///   HVDRAY-STAGE/1 SYSTEM MACHINE DIRECTORY     and then reads StageAnswer() from stdin
///   HVDRAY-FAILED/1 TEXT                     the host can't take the agent
/// Writes the file under a unique name, compares its hash, then renames it, so that concurrent runs
/// don't collide. Removes staged agents that were not used for 30 days. Executes only a file that
/// belongs to the user, in the user's own directory that nobody else may write. Passes
/// `--folder` with the directory that the shell started in to the agent.
std::string BootstrapCommand(const BootstrapRequest& request);

/// Header of the upload. The gzip stream, `compressed_bytes` long, must follow it immediately.
/// `sha256`: of the uncompressed file, in hex.
std::string StageAnswer(std::string_view sha256, size_t compressed_bytes);

/// The word in single quotes, for any of the login shells above.
std::string ShellQuoted(std::string_view word);

/// What a line of the shell means.
struct BootstrapLine {
  enum class Kind : uint8_t {
    kNoise,        ///< Any other line: a banner, or output of the shell's start-up files.
    kNeedsAgent,   ///< The host doesn't have the agent and asks for it.
    kFailed,       ///< The host can't take the agent.
    kAgentSpeaks,  ///< The agent's announcement. This line and all that follows come from the
                   ///< agent.
  };
  Kind kind = Kind::kNoise;
  // kNeedsAgent.
  std::string system = {};     ///< uname -s
  std::string machine = {};    ///< uname -m
  std::string directory = {};  ///< Where the agent will be staged; for messages.
  std::string why = {};        ///< kFailed: the reason.
};

/// Parses a line without its newline; texts for the user pass through ShownLine(). A start-up file
/// may have printed text without a newline before one of our marks.
BootstrapLine ParseBootstrapLine(std::string_view line);

/// The stdio of a remote shell. Carries the dialogue first, and the agent's link once the agent has
/// announced itself. As a ByteStream it replays the noise and the announcement first, so its user
/// sees the same bytes as from an agent that was installed already. Threads: the loop's.
class StagedStream : public ByteStream, private ByteStream::Owner {
 public:
  struct ScanHandlers {
    /// Called for NeedsAgent (answer it with Write()), Failed and AgentSpeaks. AgentSpeaks is the
    /// last: reading pauses until Start().
    std::function<void(const BootstrapLine& line)> on_line;
    /// The stream closed before AgentSpeaks, or the shell printed over 64 KiB of noise
    /// (kProtocolError).
    std::function<void(Status)> on_closed;
  };
  /// `inner`: not started yet. The loop outlives the stream.
  StagedStream(Loop& loop, std::unique_ptr<ByteStream> inner);

  /// Starts reading the shell's output. Call once, before Start().
  void Scan(ScanHandlers handlers);

  void Start(ByteStream::Owner& owner) override;
  void Write(std::string bytes) override { inner_->Write(std::move(bytes)); }
  size_t QueuedBytes() const override { return inner_->QueuedBytes(); }
  void SetReading(bool is_reading) override;

 private:
  void OnData(ByteView bytes) override;
  void OnDrained() override;
  void OnClosed(Status why) override;
  void TakeLine();
  void Deliver();

  Loop& loop_;
  std::unique_ptr<ByteStream> inner_;
  std::shared_ptr<const ScanHandlers> scan_;  // shared with the call in progress
  ByteStream::Owner* owner_ = nullptr;        // since Start()
  std::string kept_;     // for Start(): noise, the announcement and what follows it
  std::string pending_;  // lines that were not looked at yet
  bool is_found_ = false;
  bool wants_reading_ = true;
  bool is_closed_ = false;
  Status closed_;
  Watch later_;  // the next line, or what was kept
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_AGENT_BOOTSTRAP_H_
