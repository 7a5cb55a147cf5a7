// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_shell.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <utility>
#include <vector>

#include "base/fd.h"
#include "cluster/ssh/ssh_command.h"
#include "cluster/ssh/ssh_config_source.h"
#include "cluster/ssh/ssh_connect.h"
#include "cluster/ssh/ssh_gate.h"

namespace hvdray {
namespace {

/// What jobs in the pool need. They may outlive the shell until they notice the cancellation.
struct Shared {
  explicit Shared(Libssh2ShellOptions given)
      : options(std::move(given)),
        configs(options.overrides, options.user, options.ssh_program),
        questions(options.ask),
        cancel(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  const Libssh2ShellOptions options;
  SshConfigSource configs;
  SshQuestions questions;
  const UniqueFd cancel;  // readable: give up
};

struct Found {
  SshSettings settings;
  std::vector<SshAddress> addresses;
};

/// First job in the pool: finds the host's settings and addresses.
Result<Found> FindHost(Shared& shared, const Result<SshTarget>& target) {
  const SshLimit limit = SshLimit::In(shared.options.connect_timeout, shared.cancel.get());
  if (!target.ok()) return target.status();
  HVDRAY_RETURN_IF_ERROR(CheckSshTarget(*target));
  Found found;
  HVDRAY_ASSIGN_OR_RETURN(found.settings, shared.configs.Settings(*target, limit));
  if (!found.settings.needs_openssh.empty()) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("this host needs the system's ssh: {}", found.settings.needs_openssh),
                  "--ssh-transport openssh");
  }
  HVDRAY_ASSIGN_OR_RETURN(found.addresses,
                          LookUpSshHost(found.settings.host_name, found.settings.port));
  return found;
}

class Libssh2Shell : public RemoteShell {
 public:
  Libssh2Shell(Loop& loop, BlockingPool& pool, Libssh2ShellOptions options)
      : loop_(loop),
        pool_(pool),
        shared_(std::make_shared<Shared>(std::move(options))),
        gate_(shared_->options.max_connecting_per_address) {}

  ~Libssh2Shell() override {
    const uint64_t one = 1;
    (void)WriteAll(shared_->cancel.get(),
                   ByteView(reinterpret_cast<const char*>(&one), sizeof one));
    shared_->questions.Close();
  }

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    auto start = std::make_shared<Start>();
    start->host = host;
    start->command = command;
    start->done = std::move(done);
    pool_.Run<Result<Found>>([shared = shared_, target = shared_->options.target_of(
                                                    host)] { return FindHost(*shared, target); },
                             Alive<Result<Found>>([this, start](Result<Found> found) {
                               OnFound(start, std::move(found));
                             }));
  }

 private:
  /// One pending Run(). Shared by the callbacks that carry it from step to step.
  struct Start {
    std::string host;
    std::string command;
    std::function<void(Result<AgentStart>)> done;
    Found found;
    std::string door;
  };
  using StartPtr = std::shared_ptr<Start>;

  /// Calls `function` only while the shell exists.
  template <typename T>
  std::function<void(T)> Alive(std::function<void(T)> function) {
    return [alive = std::weak_ptr<bool>(alive_), function = std::move(function)](T value) {
      if (!alive.expired()) function(std::move(value));
    };
  }

  void OnFound(const StartPtr& start, Result<Found> found) {
    if (!found.ok()) return start->done(std::move(found).status());
    start->found = std::move(*found);
    start->door = start->found.addresses[0].ToString();
    gate_.Enter(start->door, [this, start] { Connect(start); });
  }

  void Connect(const StartPtr& start) {
    using Session = Result<std::unique_ptr<SshSession>>;
    pool_.Run<Session>(
        [shared = shared_, host = start->host, command = start->command, found = start->found] {
          const SshLimit limit =
              SshLimit::In(shared->options.connect_timeout, shared->cancel.get());
          return ConnectSsh(found.settings, host, found.addresses, command, shared->questions,
                            limit);
        },
        Alive<Session>([this, start](Session session) {
          gate_.Leave(start->door);
          if (!session.ok()) return start->done(std::move(session).status());
          Begin(start, std::move(*session));
        }));
  }

  void Begin(const StartPtr& start, std::unique_ptr<SshSession> session) {
    SshCommandOptions options;
    options.host = start->host;
    options.keep_alive_period = shared_->options.keep_alive_period;
    if (shared_->options.on_stderr) {
      options.on_stderr = [on_stderr = shared_->options.on_stderr,
                           host = start->host](std::string_view line) { on_stderr(host, line); };
    }
    start->done(StartSshCommand(loop_, std::move(session), std::move(options)));
  }

  Loop& loop_;
  BlockingPool& pool_;
  const std::shared_ptr<Shared> shared_;  // shared with the jobs in the pool
  SshGate gate_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<RemoteShell> MakeLibssh2Shell(Loop& loop, BlockingPool& pool,
                                              Libssh2ShellOptions options) {
  return std::make_unique<Libssh2Shell>(loop, pool, std::move(options));
}

}  // namespace hvdray
