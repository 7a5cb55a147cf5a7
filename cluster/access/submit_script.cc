// SPDX-License-Identifier: Apache-2.0
// `hvdray submit FILE SCRIPT`: the script on the head.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "cluster/access/actions.h"
#include "cluster/access/cluster_access.h"
#include "cluster/access/cluster_life.h"

namespace hvdray {
namespace {

/// Relative to the home directory on the head: a directory of this job alone, so that the script
/// replaces no other file, and no other job finds it.
std::string PlaceOf(const std::string& name) {
  return fmt::format(".cache/hvdray/jobs/{}/{}", Hex(RandomBytes(8)), name);
}

/// Shell text that runs the script at `place` with `arguments`, each as it is. As Ray has it,
/// modules in the home directory can be imported. Newer systems have no `python`.
std::string ScriptText(const std::string& place, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {place};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::string quoted = QuotedWords(words);
  return fmt::format(
      "PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}$HOME; export PYTHONPATH; "
      "if command -v python >/dev/null; then python ~/{0}; else python3 ~/{0}; fi",
      quoted);
}

}  // namespace

std::pair<std::string, std::string> DirectoryAndName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

Status CheckScript(const std::string& script) {
  if (::access(script.c_str(), R_OK) == 0) return {};
  return ErrnoStatus("open", errno).WithCode(ErrorCode::kFileUnreadable).WithContext(script);
}

Result<int> SubmitScript(ClusterAccess& access, const CommandRequest& request) {
  const std::string& script = request.arguments[1];
  const std::string script_place = PlaceOf(DirectoryAndName(script).second);
  HVDRAY_RETURN_IF_ERROR(KeeperOf(request).status());
  RemoteCommand place;
  HVDRAY_RETURN_IF_ERROR(SetContainer(access, request, &place));
  HVDRAY_RETURN_IF_ERROR(CheckScript(script));
  return RunWithCluster(access, request, [&]() -> Result<int> {
    HVDRAY_RETURN_IF_ERROR(FindNodes(access));
    HVDRAY_ASSIGN_OR_RETURN(const ClusterNode head, ResolveHead(access));
    HVDRAY_RETURN_IF_ERROR(PutFile(access, head, place, script, script_place, PutFor::kJob));
    const std::vector<std::string> arguments(request.arguments.begin() + 2,
                                             request.arguments.end());
    return RunText(access, request, head, ScriptText(script_place, arguments));
  });
}

}  // namespace hvdray
