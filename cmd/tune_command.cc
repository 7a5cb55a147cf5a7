// SPDX-License-Identifier: Apache-2.0
// `hvdray tune`: becomes a Python with the package hvdray, which has the search.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "agent/host_inspection.h"
#include "base/environ.h"
#include "base/exec.h"
#include "cmd/commands.h"

namespace hvdray {
namespace {

// argv[1]: this program, for a Python that has another one installed too. argv[2]: where its own
// package is, for a Python that has none.
constexpr const char* kBecomeTune =
    "import os, sys\n"
    "sys.path = [path for path in sys.path if path]  # not the current directory\n"
    "os.environ.setdefault('HVDRAY_BINARY', sys.argv.pop(1))\n"
    "sys.path += filter(None, [sys.argv.pop(1)])\n"
    "try:\n"
    "    from hvdray.tune.__main__ import main\n"
    "except ImportError as error:\n"
    "    print(f'hvdray tune: {sys.executable} has no hvdray with tune: {error}\\n'\n"
    "          \"  hint: in hvdray's sources: pip install '.[tune]'\", file=sys.stderr)\n"
    "    sys.exit(125)\n"
    "sys.exit(main())\n";

/// Of the virtual environment that this program is in, else on PATH. Empty: there is none.
std::string PythonHere(const std::string& folder) {
  std::string beside = folder + "python3";
  const std::string mark = folder + "../pyvenv.cfg";
  if (::access(mark.c_str(), F_OK) == 0 && ::access(beside.c_str(), X_OK) == 0) return beside;
  wire::Inspect inspect;
  inspect.path = Environment::FromProcess().GetOr("PATH", "");
  for (const char* name : {"python3", "python"}) {
    inspect.command = name;
    if (FoundCommand found = FindCommand(inspect); found.error == 0) return found.path;
  }
  return {};
}

}  // namespace

int TuneCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("tune", line, &request)) return *code;
  const bool is_show = request.arguments.front() == "show";
  if (request.arguments.size() != (is_show ? 2U : 1U)) {
    return Fail("tune",
                {ErrorCode::kUsage, is_show ? "no storage given" : "more than one file given",
                 is_show ? "hvdray tune show study.db" : "hvdray tune FILE"});
  }
  const std::string own = OwnPath();
  const std::string python = PythonHere(own.substr(0, own.rfind('/') + 1));
  if (python.empty()) {
    return Fail("tune", {ErrorCode::kCommandNotFound, "no python3 on PATH",
                         "a search needs Python, and in hvdray's sources: pip install '.[tune]'"});
  }
  std::vector<std::string> words = {python, "-c", kBecomeTune, own, OwnPythonPath()};
  words.insert(words.end(), line.args.begin(), line.args.end());
  const std::vector<char*> argv = ExecArray(words);
  // hvdray ignores them, and an ignored signal survives execve().
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  // Ctrl-C waits until main() can answer it: a Python that is still importing prints a traceback.
  sigset_t interrupt;
  ::sigemptyset(&interrupt);
  ::sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  ::execv(argv[0], argv.data());
  return Fail("tune", {ErrorCode::kCommandNotExecutable,
                       fmt::format("cannot start {}: {}", python, ::strerror(errno))});
}

}  // namespace hvdray
