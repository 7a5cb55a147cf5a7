// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/states.h"

namespace hvdray {

bool CanFollow(GangState from, GangState to) {
  switch (from) {
    case GangState::kConnecting:
      return to == GangState::kStarting || to == GangState::kFinished;
    case GangState::kStarting:
      // kFinished: every host is lost, so there is nothing to wait for.
      return to == GangState::kRunning || to == GangState::kFailing || to == GangState::kStopping ||
             to == GangState::kFinished;
    case GangState::kRunning:
      return to == GangState::kFailing || to == GangState::kStopping || to == GangState::kFinished;
    case GangState::kFailing:
      return to == GangState::kStopping || to == GangState::kFinished;
    case GangState::kStopping:
      // kStarting: the gang is restarted.
      return to == GangState::kStarting || to == GangState::kFinished;
    case GangState::kFinished:
      return false;
  }
  return false;
}

std::string_view NameOf(GangState state) {
  switch (state) {
    case GangState::kConnecting:
      return "connecting";
    case GangState::kStarting:
      return "starting";
    case GangState::kRunning:
      return "running";
    case GangState::kFailing:
      return "failing";
    case GangState::kStopping:
      return "stopping";
    case GangState::kFinished:
      return "finished";
  }
  return "unknown";
}

bool CanFollow(WorkerState from, WorkerState to) {
  switch (from) {
    case WorkerState::kPending:
      return to == WorkerState::kStarting;
    case WorkerState::kStarting:
      // An exit may be reported without a start: exec failed, or the stop overtook it.
      return to == WorkerState::kRunning || to == WorkerState::kStopping || IsTerminal(to);
    case WorkerState::kRunning:
      return to == WorkerState::kStopping || to == WorkerState::kExited ||
             to == WorkerState::kFailedToStart || to == WorkerState::kLost;
    case WorkerState::kStopping:
      return IsTerminal(to);
    case WorkerState::kExited:
    case WorkerState::kFailedToStart:
    case WorkerState::kLost:
      return false;
  }
  return false;
}

std::string_view NameOf(WorkerState state) {
  switch (state) {
    case WorkerState::kPending:
      return "pending";
    case WorkerState::kStarting:
      return "starting";
    case WorkerState::kRunning:
      return "running";
    case WorkerState::kStopping:
      return "stopping";
    case WorkerState::kExited:
      return "exited";
    case WorkerState::kFailedToStart:
      return "failed_to_start";
    case WorkerState::kLost:
      return "lost";
  }
  return "unknown";
}

}  // namespace hvdray
