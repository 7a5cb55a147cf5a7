// SPDX-License-Identifier: Apache-2.0
// `hvdray bench`: becomes hvdray-bench. That is a program of its own because it links the
// collective library with Gloo, a shared library that `hvdray run` should not have to load.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/exec.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"

namespace hvdray {

int BenchCommand(const CommandLine& line) {
  const Result<BenchRequest> request = ResolveBench(line.args);
  if (!request.ok()) return Fail("bench", request.status());
  if (request->wants_help) return PrintOut("bench", Help(CommandNamed("bench")));
  if (request->wants_version) return PrintOut("bench", VersionText());
  const std::string own = OwnPath();
  std::vector<std::string> words = {own.substr(0, own.rfind('/') + 1) + "hvdray-bench"};
  words.insert(words.end(), line.args.begin(), line.args.end());
  const std::vector<char*> argv = ExecArray(words);
  // hvdray ignores them, and an ignored signal survives execve().
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  ::execv(argv[0], argv.data());
  const int error = errno;
  const std::string text = fmt::format("cannot start {}: {}", words[0], ::strerror(error));
  if (error != ENOENT) return Fail("bench", {ErrorCode::kCommandNotExecutable, text});
  return Fail("bench", {ErrorCode::kCommandNotFound, text,
                        "put hvdray-bench beside hvdray (docs/bench.md)"});
}

}  // namespace hvdray
