// SPDX-License-Identifier: Apache-2.0
// All that passes between the launcher and its workers, by way of their agents: output and the
// credit for it, channels, stdin, signals. Decides nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_WORKER_LINKS_H_
#define HVDRAY_LAUNCHER_ENGINE_WORKER_LINKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/job_client.h"
#include "launcher/engine/object_feed.h"
#include "launcher/engine/stdin_feeder.h"
#include "launcher/engine/worker_channels.h"
#include "launcher/engine/worker_guard.h"

namespace hvdray {

/// Workers are named as their agents name them. What a worker gets goes to the agent that it was
/// admitted for, in its generation; what is sent to any other worker is dropped. Of what agents
/// send, only what they may say of their own workers gets through, and its bytes are granted again
/// once. Threads: the loop's.
class WorkerLinks final : public JobClient::Workers, private WorkerChannels::Owner {
 public:
  class Owner {
   public:
    virtual JobClient& client() = 0;
    /// Bytes of stdout or stderr; OnWritten() grants them again.
    virtual void OnOutput(wire::Output& output) = 0;
    /// As WorkerChannels::Owner.
    virtual void OnReport(int worker, uint32_t number, const Json& metrics) = 0;
    /// It broke the rules of its channel, and is being killed.
    virtual void OnViolation(int worker, const Status& why) = 0;

   protected:
    ~Owner() = default;
  };

  /// `has_channels`: workers have one. The others outlive it.
  WorkerLinks(Loop& loop, AgentLinks& agents, ObjectFeed& objects, bool has_channels, Owner& owner)
      : loop_(loop),
        agents_(agents),
        objects_(objects),
        has_channels_(has_channels),
        owner_(owner),
        channels_(*this) {}

  WorkerGuard& guard() { return guard_; }
  const WorkerGuard& guard() const { return guard_; }
  /// Another gang or generation begins: forgets all channels.
  void ClearChannels() { channels_.Clear(); }

  /// Handles output, its credit, and refusals. False: the message is another one, which that agent
  /// may send. Errors: kProtocolError if it may not.
  Result<bool> OnMessage(int agent, wire::Message& message);
  void OnWritten(int worker, uint32_t bytes);
  /// Announces on its channel that the worker is to end within `grace`.
  void TellEnd(int worker, Duration grace);
  /// The worker is gone; output of it may still come.
  void OnExited(int worker);

  void Send(int worker, wire::Body body);
  void Signal(int worker, int signo) override { Send(worker, wire::Signal{worker, signo}); }
  void Write(int worker, std::shared_ptr<const std::string> bytes) override;
  void Give(int worker, int64_t object) override { channels_.Give(worker, object); }
  void DropObject(int64_t object) override { channels_.DropObject(object); }
  size_t QueuedBytes() const override { return channels_.queued_bytes(); }
  void OnClientRoom() override { channels_.GrantWithheld(); }

  /// Feeds hvdray's stdin to the worker, which has been admitted.
  void StartStdin(int worker);
  void DropStdin() { stdin_.reset(); }

 private:
  void OnHello(int worker, const Json& hello) override;
  void OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) override;
  void OnReport(int worker, uint32_t number, const Json& metrics) override;
  void OnViolation(int worker, const Status& why) override;
  void SendBytes(int worker, wire::Stdin frame) override { Send(worker, std::move(frame)); }
  void SendObject(int worker, int64_t object) override;
  void OnDropped(int64_t object) override { objects_.Drop(object); }
  bool HasRoom() const override { return owner_.client().HasRoom(); }
  void GrantRead(int worker, uint32_t bytes) override;

  Loop& loop_;
  AgentLinks& agents_;
  ObjectFeed& objects_;
  const bool has_channels_;
  Owner& owner_;
  WorkerGuard guard_;
  WorkerChannels channels_;
  std::unique_ptr<StdinFeeder> stdin_;
  int stdin_worker_ = -1;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_WORKER_LINKS_H_
