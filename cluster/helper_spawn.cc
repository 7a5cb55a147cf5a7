#include "cluster/helper_spawn.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hvdray {
namespace {

class SpawnActions {
 public:
  SpawnActions() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

}  // namespace

Result<Helper> SpawnHelper(const std::vector<std::string>& command, const HelperStreams& streams) {
  SpawnActions spawn;
  ::posix_spawn_file_actions_adddup2(&spawn.actions, streams.in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, streams.out, STDOUT_FILENO);
  if (streams.err >= 0) {
    ::posix_spawn_file_actions_adddup2(&spawn.actions, streams.err, STDERR_FILENO);
  }
  ::posix_spawn_file_actions_addclosefrom_np(&spawn.actions, STDERR_FILENO + 1);
  // The launcher ignores SIGPIPE and may block signals; the child starts from the defaults.
  sigset_t defaults;
  sigset_t none;
  ::sigfillset(&defaults);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&spawn.attributes, &defaults);
  ::posix_spawnattr_setsigmask(&spawn.attributes, &none);
  ::posix_spawnattr_setflags(&spawn.attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Helper helper;
  const int error = ::posix_spawnp(&helper.pid, argv[0], &spawn.actions, &spawn.attributes,
                                   argv.data(), ::environ);
  if (error != 0) {
    return Status(ErrorCode::kAgentStartFailed,
                  fmt::format("{}: {}", command.front(), ::strerror(error)));
  }
  helper.pidfd.Reset(static_cast<int>(::syscall(SYS_pidfd_open, helper.pid, 0)));
  if (helper.pidfd.is_valid()) return helper;
  const Status status = ErrnoStatus("pidfd_open", errno);
  ::kill(-helper.pid, SIGKILL);
  ::waitpid(helper.pid, nullptr, 0);
  return status;
}

}  // namespace hvdray
