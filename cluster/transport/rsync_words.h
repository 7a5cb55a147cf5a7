// SPDX-License-Identifier: Apache-2.0
// The command line of the system's rsync for one copy to or from another host. Pure.
#ifndef HVDRAY_CLUSTER_TRANSPORT_RSYNC_WORDS_H_
#define HVDRAY_CLUSTER_TRANSPORT_RSYNC_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "cluster/transport/command_shell.h"

namespace hvdray {

/// One copy, as rsync understands paths: "dir/" means what is in it. Of the other host: absolute,
/// or relative to the home directory there; a leading "~/" says the same.
struct RsyncCopy {
  std::string source;
  std::string target;
  bool is_down = false;               ///< The source is on the other host.
  std::string host;                   ///< Empty: both are on this machine.
  std::vector<std::string> excludes;  ///< rsync_exclude
  std::vector<std::string> filters;   ///< rsync_filter: names of files with patterns.
  bool makes_parent = false;          ///< Make the directories above the target on the host.
};

/// argv of rsync, whose ssh is called with the options of `ssh`.
std::vector<std::string> RsyncArgv(const RsyncCopy& copy, const OpensshOptions& ssh);

/// rsync is missing on the other host, which its exit code and its messages say together.
bool SaysRsyncIsMissing(int exit_code, const std::vector<std::string>& lines);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_RSYNC_WORDS_H_
