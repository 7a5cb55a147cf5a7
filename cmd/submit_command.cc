// SPDX-License-Identifier: Apache-2.0
// `hvdray submit FILE SCRIPT`: the script on the head, or with --gang `hvdray run` on the cluster.
#include <string>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/user_home.h"
#include "cluster/access/actions.h"
#include "cmd/on_cluster.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"

namespace hvdray {
namespace {

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

}  // namespace

int SubmitCommand(const CommandLine& line) {
  Result<SubmitRequest> submit = ResolveSubmit(line.args, HomesHere(Environment::FromProcess()));
  if (!submit.ok()) return Fail("submit", submit.status());
  if (submit->request.wants_help) return PrintOut("submit", Help(CommandNamed("submit")));
  if (submit->is_gang) return SubmitGang(std::move(submit).value(), line);
  return OnCluster("submit", submit->request, &SubmitScript);
}

}  // namespace hvdray
