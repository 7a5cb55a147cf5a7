// SPDX-License-Identifier: Apache-2.0
// The parts that help, docs, man page and completion share. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HELP_TEXT_H_
#define HVDRAY_LAUNCHER_JOB_HELP_TEXT_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/option_table.h"

namespace hvdray {

struct HelpExample {
  std::string_view text;
  std::string_view command;
};

inline constexpr std::array<HelpExample, 7> kRunExamples = {{
    {"four workers on this machine", "hvdray run -np 4 python train.py"},
    {"two hosts with four slots each", "hvdray run -np 8 -H node1:4,node2:4 python train.py"},
    {"the job from a file, one flag changed", "hvdray run -f job.yaml --grace 30"},
    {"hosts and job from a cluster file", "hvdray run --cluster configs/quickstart.yaml"},
    {"slots of a Ray cluster, from a machine without Ray",
     "hvdray run -np 4 --ray-address http://10.0.0.10:8265 --working-dir . python train.py"},
    {"which rank would run where", "hvdray run -np 4 --dry-run --print-plan python train.py"},
    {"where each setting comes from", "hvdray run -f job.yaml --print-config"},
}};

inline constexpr std::array<HelpExample, 4> kCheckExamples = {{
    {"would a job start there?", "hvdray check -H node1:4,node2:4"},
    {"is the command there as well?", "hvdray check -H node1:4,node2:4 -- python train.py"},
    {"does its Python import what it needs?",
     "hvdray check -H node1:4,node2:4 --import torch -- python train.py"},
    {"the same for a job file, for a program to read", "hvdray check -f job.yaml --json"},
}};

/// The options of run that make a difference to a check, in the order in which they are shown.
inline constexpr std::array<OptionId, 23> kCheckOptions = {OptionId::kHosts,
                                                           OptionId::kHostfile,
                                                           OptionId::kCluster,
                                                           OptionId::kNumProc,
                                                           OptionId::kJobFile,
                                                           OptionId::kCwd,
                                                           OptionId::kEnv,
                                                           OptionId::kStartTimeout,
                                                           OptionId::kHeartbeatTimeout,
                                                           OptionId::kSshPort,
                                                           OptionId::kSshIdentityFile,
                                                           OptionId::kSshTransport,
                                                           OptionId::kSshConfig,
                                                           OptionId::kStrictHostKeyChecking,
                                                           OptionId::kSshConnections,
                                                           OptionId::kLaunchAgent,
                                                           OptionId::kRemoteDir,
                                                           OptionId::kAgentPath,
                                                           OptionId::kForceRemote,
                                                           OptionId::kNetworkInterfaces,
                                                           OptionId::kVerbose,
                                                           OptionId::kHelp,
                                                           OptionId::kVersion};

/// Groups in the order in which they are shown.
inline constexpr std::array<OptionGroup, 16> kGroupOrder = {
    OptionGroup::kJob,      OptionGroup::kHosts,    OptionGroup::kFailure,
    OptionGroup::kOutput,   OptionGroup::kPlan,     OptionGroup::kNetwork,
    OptionGroup::kElastic,  OptionGroup::kRay,      OptionGroup::kTunables,
    OptionGroup::kAutotune, OptionGroup::kTimeline, OptionGroup::kStallCheck,
    OptionGroup::kLibrary,  OptionGroup::kLogging,  OptionGroup::kController,
    OptionGroup::kGeneral};

/// "-np N, --num-proc N": the visible spellings with their value.
std::string SpellingLine(const OptionRow& row);

/// One visible spelling with its value, as one types it.
std::string WithValue(const Spelling& spelling);

std::vector<const OptionRow*> RowsOf(OptionGroup group);

/// The rows that help on check shows: its own, then kCheckOptions.
std::vector<const OptionRow*> RowsOfCheck();

/// The part of docs/cli.md that is about check.
std::string CheckMarkdown();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HELP_TEXT_H_
