// SPDX-License-Identifier: Apache-2.0
// What the launcher writes to the workers of one gang: to their stdin and their channels.
//
// What always holds: a byte that the launcher has sent is in a pump's queue or has been granted
// again. So its credit never leaks, whether the worker reads, closes its stdin, ends, or never
// came.
#ifndef HVDRAY_AGENT_WORKER_INPUTS_H_
#define HVDRAY_AGENT_WORKER_INPUTS_H_

#include <functional>
#include <map>
#include <utility>

#include "agent/object_store.h"
#include "agent/stdin_pump.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Owns the write ends. `stream`: kStdin or kChannel. Threads: the loop's.
class WorkerInputs {
 public:
  /// `grant`: the launcher may send so many bytes more, see StdinPump. The loop outlives it.
  WorkerInputs(Loop& loop, std::function<void(wire::Credit)> grant)
      : loop_(loop), grant_(std::move(grant)) {}

  /// The worker is going to have that input: what comes before Open() is kept.
  void Expect(int worker, wire::StreamId stream);
  /// Takes ownership of `fd`, a non-blocking write end.
  void Open(int worker, wire::StreamId stream, UniqueFd fd);
  /// The worker has ended, or did not start: grants again what it has not read.
  void Close(int worker);
  /// Grants at once what comes for an input that no worker has. Errors: kProtocolError, see
  /// StdinPump.
  Status Write(wire::Stdin input);
  /// Gives an object to a worker, behind what was written to its channel.
  void Give(int worker, int64_t object, ObjectStore::View view);

 private:
  Loop& loop_;
  const std::function<void(wire::Credit)> grant_;
  std::map<std::pair<int, wire::StreamId>, StdinPump> pumps_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_WORKER_INPUTS_H_
