// SPDX-License-Identifier: Apache-2.0
// `hvdray submit FILE SCRIPT`: the script on the head, or with --gang `hvdray run` on the cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/user_home.h"
#include "cmd/cluster_access.h"
#include "cmd/cluster_life.h"
#include "cmd/commands.h"
#include "cmd/ray_passthrough.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"

namespace hvdray {
namespace {

std::pair<std::string, std::string> DirectoryAndName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

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

Status CheckScript(const std::string& script) {
  if (::access(script.c_str(), R_OK) == 0) return {};
  return ErrnoStatus("open", errno).WithCode(ErrorCode::kFileUnreadable).WithContext(script);
}

int SubmitGang(SubmitRequest submit, const CommandLine& line) {
  const std::vector<std::string>& words = submit.request.arguments;
  // With a working directory of another place, it is a path in that.
  if (!submit.has_working_dir) {
    if (const Status script = CheckScript(words[1]); !script.ok()) return Fail("submit", script);
  }
  std::vector<std::string> run = std::move(submit.run_words);
  const auto [directory, name] = DirectoryAndName(words[1]);
  if (!submit.has_working_dir) run.insert(run.end(), {"--working-dir", directory});
  run.insert(run.end(), {"--", "python", submit.has_working_dir ? words[1] : name});
  run.insert(run.end(), words.begin() + 2, words.end());
  return RunCommand({run, line.began});
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

}  // namespace

int SubmitCommand(const CommandLine& line) {
  Result<SubmitRequest> submit = ResolveSubmit(line.args, HomesHere(Environment::FromProcess()));
  if (!submit.ok()) return Fail("submit", submit.status());
  if (submit->request.wants_help) return PrintOut("submit", Help(CommandNamed("submit")));
  if (submit->is_gang) return SubmitGang(std::move(submit).value(), line);
  Result<ClusterAccess> access = OpenClusterFile("submit", submit->request);
  if (!access.ok()) return Fail("submit", access.status());
  if (const auto code = PassToRay("submit", submit->request, access->file)) return *code;
  const Result<int> code = SubmitScript(*access, submit->request);
  return code.ok() ? *code : FailOn(*access, code.status());
}

}  // namespace hvdray
