// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_states.h"

#include <algorithm>

namespace hvdray {
namespace {

using S = ElasticState;

constexpr ElasticTransition kTransitions[] = {
    {S::kGathering, S::kRunning, "np slots are ready"},
    {S::kGathering, S::kFinished, "no hosts in time, no discovery, or told to end"},
    {S::kRunning, S::kJoining, "slots were added; newcomers start"},
    {S::kRunning, S::kCalling, "slots went away, or --join together"},
    {S::kRunning, S::kMeeting, "a member was lost, or arrived by itself"},
    {S::kRunning, S::kRestarting, "gang mode: a failure or a change"},
    {S::kRunning, S::kStopping, "all succeeded, or told to end"},
    {S::kJoining, S::kRunning, "the added slots are gone again"},
    {S::kJoining, S::kCalling, "all newcomers have arrived, or a host leaves"},
    {S::kJoining, S::kMeeting, "a member was lost, or arrived by itself"},
    {S::kJoining, S::kStopping, "all succeeded, or told to end"},
    {S::kCalling, S::kRunning, "the change was reverted"},
    {S::kCalling, S::kJoining, "a newcomer died; another one starts"},
    {S::kCalling, S::kMeeting, "the first member arrived, or was lost"},
    {S::kCalling, S::kStopping, "all succeeded, or told to end"},
    {S::kMeeting, S::kRunning, "all members arrived; the new generation is published"},
    {S::kMeeting, S::kGate, "all members arrived; newcomers are needed"},
    {S::kMeeting, S::kShort, "all members arrived; fewer slots than min_np"},
    {S::kMeeting, S::kStopping,
     "a worker succeeded, no worker is left, reset limit, or told to end"},
    {S::kMeeting, S::kFinished, "every host is gone"},
    {S::kShort, S::kRunning, "enough slots; the new generation is published"},
    {S::kShort, S::kGate, "enough slots; newcomers are needed"},
    {S::kShort, S::kStopping, "no slots in time, no worker is left, or told to end"},
    {S::kShort, S::kFinished, "no slots in time, or told to end, and nothing is left"},
    {S::kGate, S::kRunning, "all newcomers arrived; the new generation is published"},
    {S::kGate, S::kShort, "slots went away again, maybe with members"},
    {S::kGate, S::kStopping, "no worker is left, or told to end"},
    {S::kGate, S::kFinished, "every host is gone"},
    {S::kRestarting, S::kRunning, "all workers stopped; the new generation starts"},
    {S::kRestarting, S::kShort, "all workers stopped; fewer slots than min_np"},
    {S::kRestarting, S::kStopping, "told to end"},
    {S::kRestarting, S::kFinished, "told to end, and nothing is left"},
    {S::kStopping, S::kFinished, "every host reported, or was given up"},
};

}  // namespace

std::span<const ElasticTransition> ElasticTransitions() { return kTransitions; }

bool CanFollow(ElasticState from, ElasticState to) {
  return std::any_of(std::begin(kTransitions), std::end(kTransitions),
                     [&](const ElasticTransition& t) { return t.from == from && t.to == to; });
}

std::string_view NameOf(ElasticState state) {
  switch (state) {
    case S::kGathering:
      return "gathering";
    case S::kRunning:
      return "running";
    case S::kJoining:
      return "joining";
    case S::kCalling:
      return "calling";
    case S::kMeeting:
      return "meeting";
    case S::kShort:
      return "short";
    case S::kGate:
      return "gate";
    case S::kRestarting:
      return "restarting";
    case S::kStopping:
      return "stopping";
    case S::kFinished:
      return "finished";
  }
  return "unknown";
}

}  // namespace hvdray
