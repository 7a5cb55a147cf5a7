// SPDX-License-Identifier: Apache-2.0
#include "wire/message.h"

#include <algorithm>
#include <type_traits>

#include "base/status.h"

namespace hvdray::wire {
namespace {

// The type of each alternative of Body, in its order.
constexpr MessageType kTypes[] = {MessageType::kHello,
                                  MessageType::kWelcome,
                                  MessageType::kProbe,
                                  MessageType::kProbeResult,
                                  MessageType::kStartGeneration,
                                  MessageType::kWorkerStarted,
                                  MessageType::kWorkerExited,
                                  MessageType::kOutput,
                                  MessageType::kCredit,
                                  MessageType::kStdin,
                                  MessageType::kSignal,
                                  MessageType::kKvRequest,
                                  MessageType::kKvReply,
                                  MessageType::kKvReset,
                                  MessageType::kStopGeneration,
                                  MessageType::kGenerationStopped,
                                  MessageType::kHeartbeat,
                                  MessageType::kBye,
                                  MessageType::kInspect,
                                  MessageType::kInspection,
                                  MessageType::kDirectoryList,
                                  MessageType::kDirectoryWanted,
                                  MessageType::kFile,
                                  MessageType::kFileTaken,
                                  MessageType::kDirectoryProblem,
                                  MessageType::kBreakConnections,
                                  MessageType::kNotify,
                                  MessageType::kHostLeaving,
                                  MessageType::kConnectionsBroken,
                                  MessageType::kWorkerArrived,
                                  MessageType::kStopWorkers,
                                  MessageType::kObjectPiece,
                                  MessageType::kGiveObject,
                                  MessageType::kDropObject,
                                  MessageType::kObjectProblem,
                                  MessageType::kWarmed,
                                  MessageType::kWarm,
                                  MessageType::kSharesMemory,
                                  MessageType::kMapObject};
static_assert(std::size(kTypes) == std::variant_size_v<Body>);

template <size_t index = 0>
Body MakeBody(size_t wanted) {
  if constexpr (index + 1 < std::variant_size_v<Body>) {
    if (wanted != index) return MakeBody<index + 1>(wanted);
  }
  return Body(std::in_place_index<index>);
}

}  // namespace

MessageType TypeOf(const Body& body) { return kTypes[body.index()]; }

Body EmptyBody(MessageType type) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i] == type) return MakeBody(i);
  }
  CheckFailed("a known message type", HVDRAY_FILE, __LINE__);
}

bool IsPlainPath(std::string_view path) {
  if (path.size() > kMaxDirectoryPath || path.find('\0') != std::string_view::npos) return false;
  for (;;) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

std::string_view Name(MessageType type) {
  switch (type) {
    case MessageType::kHello:
      return "Hello";
    case MessageType::kWelcome:
      return "Welcome";
    case MessageType::kProbe:
      return "Probe";
    case MessageType::kProbeResult:
      return "ProbeResult";
    case MessageType::kInspect:
      return "Inspect";
    case MessageType::kInspection:
      return "Inspection";
    case MessageType::kStartGeneration:
      return "StartGeneration";
    case MessageType::kWorkerStarted:
      return "WorkerStarted";
    case MessageType::kWorkerExited:
      return "WorkerExited";
    case MessageType::kOutput:
      return "Output";
    case MessageType::kCredit:
      return "Credit";
    case MessageType::kStdin:
      return "Stdin";
    case MessageType::kSignal:
      return "Signal";
    case MessageType::kKvRequest:
      return "KvRequest";
    case MessageType::kKvReply:
      return "KvReply";
    case MessageType::kKvReset:
      return "KvReset";
    case MessageType::kStopGeneration:
      return "StopGeneration";
    case MessageType::kHeartbeat:
      return "Heartbeat";
    case MessageType::kBye:
      return "Bye";
    case MessageType::kGenerationStopped:
      return "GenerationStopped";
    case MessageType::kDirectoryList:
      return "DirectoryList";
    case MessageType::kDirectoryWanted:
      return "DirectoryWanted";
    case MessageType::kFile:
      return "File";
    case MessageType::kFileTaken:
      return "FileTaken";
    case MessageType::kDirectoryProblem:
      return "DirectoryProblem";
    case MessageType::kBreakConnections:
      return "BreakConnections";
    case MessageType::kNotify:
      return "Notify";
    case MessageType::kHostLeaving:
      return "HostLeaving";
    case MessageType::kConnectionsBroken:
      return "ConnectionsBroken";
    case MessageType::kWorkerArrived:
      return "WorkerArrived";
    case MessageType::kStopWorkers:
      return "StopWorkers";
    case MessageType::kObjectPiece:
      return "ObjectPiece";
    case MessageType::kGiveObject:
      return "GiveObject";
    case MessageType::kDropObject:
      return "DropObject";
    case MessageType::kObjectProblem:
      return "ObjectProblem";
    case MessageType::kWarmed:
      return "Warmed";
    case MessageType::kWarm:
      return "Warm";
    case MessageType::kSharesMemory:
      return "SharesMemory";
    case MessageType::kMapObject:
      return "MapObject";
  }
  return "unknown";
}

}  // namespace hvdray::wire
