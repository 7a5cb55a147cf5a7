// SPDX-License-Identifier: Apache-2.0
#include "cluster/provider/provider.h"

namespace hvdray {

std::string_view CloudStateWord(CloudState state) {
  switch (state) {
    case CloudState::kPending:
      return "pending";
    case CloudState::kRunning:
      return "running";
    case CloudState::kStopping:
      return "stopping";
    case CloudState::kStopped:
      return "stopped";
    case CloudState::kEnding:
      return "ending";
  }
  return "";
}

std::string_view ActionWord(ProviderStep::Action action) {
  switch (action) {
    case ProviderStep::Action::kKeep:
      return "keep";
    case ProviderStep::Action::kCreate:
      return "create";
    case ProviderStep::Action::kChange:
      return "change";
    case ProviderStep::Action::kDelete:
      return "delete";
  }
  return "";
}

}  // namespace hvdray
