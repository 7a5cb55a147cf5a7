// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/states.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

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

std::string_view Name(GangState state) {
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

std::string_view Name(WorkerState state) {
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

namespace {

using S = ElasticState;

constexpr ElasticTransition kTransitions[] = {
    {S::kGathering, S::kRunning, "np slots are ready"},
    {S::kGathering, S::kFinished, "no hosts in time, no discovery, or told to end"},
    {S::kRunning, S::kJoining, "slots were added; newcomers start"},
    {S::kRunning, S::kCalling, "slots went away, or --join together"},
    {S::kRunning, S::kMeeting, "a member was lost, or arrived by itself"},
    {S::kRunning, S::kRestarting, "gang mode: a failure or a change"},
    {S::kRunning, S::kStopping, "all succeeded, reset limit of a gang, or told to end"},
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

std::string_view Name(ElasticState state) {
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

namespace {

// Mermaid ends a label at a ':' or ';'.
std::string LabelOf(std::string_view why) {
  std::string label(why);
  std::replace_if(
      label.begin(), label.end(), [](char c) { return c == ':' || c == ';'; }, ',');
  return label;
}

}  // namespace

std::string ElasticChart() {
  std::string chart = "```mermaid\nstateDiagram-v2\n";
  chart += fmt::format("    [*] --> {}\n", Name(ElasticState::kGathering));
  for (const ElasticTransition& arrow : ElasticTransitions()) {
    chart +=
        fmt::format("    {} --> {}: {}\n", Name(arrow.from), Name(arrow.to), LabelOf(arrow.why));
  }
  chart += fmt::format("    {} --> [*]\n```\n", Name(ElasticState::kFinished));
  return chart;
}

Result<std::string> WithElasticChart(std::string_view page) {
  return WithPart(page, kChartBegin, kChartEnd, ElasticChart());
}

}  // namespace hvdray
