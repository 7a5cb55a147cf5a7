#include "cluster/local_transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fd.h"

namespace hvdray {
namespace {

// The carrier on this machine is the keeper process itself.
class LocalProcess : public AgentProcess {
 public:
  LocalProcess(Loop& loop, pid_t pid, UniqueFd pidfd)
      : loop_(loop), pid_(pid), pidfd_(std::move(pidfd)) {}

  ~LocalProcess() override {
    // A zombie is left only when hvdray is about to exit itself; init takes it then.
    watch_.Cancel();
    if (!is_reaped_) ::waitpid(pid_, nullptr, WNOHANG);
  }

  void OnExit(std::function<void(Status)> callback) override {
    watch_ = loop_.OnFd(pidfd_.get(), FdEvent::kRead, [this, callback = std::move(callback)] {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) != pid_) return;
      is_reaped_ = true;
      watch_.Cancel();
      callback(Explain(status));
    });
  }

  int pid() const override { return pid_; }

 private:
  static Status Explain(int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    if (WIFEXITED(status)) {
      return {ErrorCode::kAgentLost, fmt::format("agent exited with code {}", WEXITSTATUS(status))};
    }
    return {ErrorCode::kAgentLost,
            fmt::format("agent was killed by SIG{}", ::sigabbrev_np(WTERMSIG(status)))};
  }

  Loop& loop_;
  pid_t pid_;
  UniqueFd pidfd_;
  Watch watch_;
  bool is_reaped_ = false;
};

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

Result<pid_t> SpawnAgent(const std::string& path, int socket) {
  SpawnActions spawn;
  ::posix_spawn_file_actions_adddup2(&spawn.actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, socket, STDOUT_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&spawn.actions, STDERR_FILENO + 1);
  // The launcher ignores SIGPIPE and may block signals; the agent starts from the defaults, in a
  // session of its own, so that the terminal's signals reach the launcher alone.
  sigset_t defaults;
  sigset_t none;
  ::sigfillset(&defaults);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&spawn.attributes, &defaults);
  ::posix_spawnattr_setsigmask(&spawn.attributes, &none);
  ::posix_spawnattr_setflags(&spawn.attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::string name = "hvdray-agent";
  std::array<char*, 2> argv = {name.data(), nullptr};
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, path.c_str(), &spawn.actions, &spawn.attributes, argv.data(), ::environ);
  if (error != 0) {
    return Status(ErrorCode::kAgentStartFailed, fmt::format("{}: {}", path, ::strerror(error)),
                  "hvdray-agent lies beside hvdray, or name it with --agent-path");
  }
  return pid;
}

class LocalTransport : public Transport {
 public:
  LocalTransport(Loop& loop, std::string agent_path)
      : loop_(loop), agent_path_(std::move(agent_path)) {}

  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override {
    Result<AgentStart> start = StartNow();
    if (!start.ok()) {
      start = std::move(start).status().WithContext(fmt::format("start agent on {}", host));
    }
    // Post() takes copyable functions only.
    auto shared = std::make_shared<Result<AgentStart>>(std::move(start));
    loop_.Post([shared, done = std::move(done)] { done(std::move(*shared)); });
  }

 private:
  Result<AgentStart> StartNow() {
    HVDRAY_ASSIGN_OR_RETURN(auto sockets, MakeSocketPair());
    HVDRAY_ASSIGN_OR_RETURN(const pid_t pid, SpawnAgent(agent_path_, sockets.second.get()));
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd.is_valid()) return ErrnoStatus("pidfd_open", errno);
    UniqueFd write_fd(::fcntl(sockets.first.get(), F_DUPFD_CLOEXEC, 3));
    if (!write_fd.is_valid()) return ErrnoStatus("dup", errno);
    AgentStart start;
    start.stream = MakeFdStream(loop_, std::move(sockets.first), std::move(write_fd));
    start.process = std::make_unique<LocalProcess>(loop_, pid, std::move(pidfd));
    return start;
  }

  Loop& loop_;
  std::string agent_path_;
};

}  // namespace

std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, std::string agent_path) {
  return std::make_unique<LocalTransport>(loop, std::move(agent_path));
}

}  // namespace hvdray
