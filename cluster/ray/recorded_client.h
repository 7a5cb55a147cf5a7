// SPDX-License-Identifier: Apache-2.0
// The client of a session of `hvdray serve` that runs inside a cluster: says what the user's client
// has said beforehand, and passes on what the session answers. docs/serve.md, "As a job on Ray".
#ifndef HVDRAY_CLUSTER_RAY_RECORDED_CLIENT_H_
#define HVDRAY_CLUSTER_RAY_RECORDED_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/byte_stream.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/message_stream.h"
#include "base/status.h"

namespace hvdray {

/// Says bye once its gang has ended or can't start. Threads: the loop's. Loop outlives it.
class RecordedClient final : private ByteStream::Owner {
 public:
  struct Handlers {
    /// A whole message of the session, but neither hello nor bye. Errors end the client: the others
    /// are not passed on.
    std::function<Status(ByteView message)> on_message;
    /// Once: the recording can't be read, the session makes no sense, or on_message failed. The
    /// session still runs.
    std::function<void(const Status& why)> on_failed;
  };
  /// `recording`: a plain file, read from its start. `socket`: connected to the session.
  RecordedClient(Loop& loop, UniqueFd recording, UniqueFd socket, Handlers handlers);

  /// Begins to speak.
  void Start();
  /// Runs the loop until the session has said bye, which it has to do soon.
  void AwaitBye();

  /// The exit code of the gang; 125 if none has started.
  int exit_code() const { return exit_code_; }

 private:
  void OnData(ByteView bytes) override;
  void OnDrained() override { SayMore(); }
  void OnClosed(Status /*why*/) override { End(); }
  void SayMore();
  void Say(const Json& head);
  Status OnMessage(std::string_view type, const Json& head, uint64_t blob);
  Status OnBlob(ByteView piece, uint64_t left);
  Status OnWhole();
  void Fail(const Status& why);
  void End();

  Loop& loop_;
  const UniqueFd recording_;
  const Handlers handlers_;
  MessageReader reader_;
  std::unique_ptr<ByteStream> stream_;
  std::string own_;  // what we say ourselves, behind the recording
  std::string type_;
  std::string message_;
  uint64_t owed_ = 0;  // credit
  int exit_code_;
  bool is_said_ = false;  // all of the recording
  bool is_over_ = false;  // nothing more will come
  bool is_awaited_ = false;
  bool has_failed_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RECORDED_CLIENT_H_
