#include "cmd/library_shell.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "base/environ.h"
#include "base/terminal.h"
#include "cluster/ssh/ssh_shell.h"
#include "launcher/job/placement.h"
#include "launcher/report/progress.h"

namespace hvdray {
namespace {

/// Empty when nobody is there to be asked.
AskPerson AskAtOurTerminal(const Environment& environment) {
  if (IsContinuousIntegration(environment) || !IsSomebodyAtTerminal()) return {};
  const bool erases_line = environment.GetOr("TERM", "dumb") != "dumb";
  return [erases_line](const SshQuestion& question) {
    return AskAtTerminal({.text = question.text,
                          .echo = question.is_shown ? Echo::kOn : Echo::kOff,
                          .cancel_fd = question.cancel_fd,
                          .erases_line = erases_line});
  };
}

// The library takes hosts as people write them; here they go by their plain names.
class LibraryShell : public RemoteShell {
 public:
  LibraryShell(Loop& loop, BlockingPool& pool, const JobSpec& spec, const HostsByName& hosts,
               RemoteStderr& errors)
      : spec_(spec), hosts_(hosts) {
    const Environment environment = Environment::FromProcess();
    Libssh2ShellOptions options;
    options.user = CurrentSshUser(environment);
    options.overrides = SshOverridesOf(spec);
    options.connect_timeout = SshConnectTimeoutOf(spec);
    options.ask = AskAtOurTerminal(environment);
    options.on_stderr = [this, &errors](const std::string& target, std::string_view line) {
      const auto plain = plain_names_.find(target);
      errors.OnLine(plain != plain_names_.end() ? plain->second : target, line);
    };
    shell_ = MakeLibssh2Shell(loop, pool, std::move(options));
  }

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    const std::string target = TargetOf(hosts_.at(host));
    plain_names_[target] = host;
    shell_->Run(target, command, std::move(done));
  }

 private:
  std::string TargetOf(const HostSlots& host) const {
    const SshTarget target = SshTargetOf(spec_, host);
    const bool is_v6 = target.host.find(':') != std::string::npos;
    std::string text = is_v6 ? fmt::format("[{}]", target.host) : target.host;
    if (!target.user.empty()) text = fmt::format("{}@{}", target.user, text);
    if (target.port != 0) text += fmt::format(":{}", target.port);
    return text;
  }

  const JobSpec spec_;
  const HostsByName& hosts_;
  std::map<std::string, std::string> plain_names_;
  std::unique_ptr<RemoteShell> shell_;
};

}  // namespace

std::unique_ptr<RemoteShell> MakeLibraryShell(Loop& loop, BlockingPool& pool, const JobSpec& spec,
                                              const HostsByName& hosts, RemoteStderr& errors) {
  return std::make_unique<LibraryShell>(loop, pool, spec, hosts, errors);
}

}  // namespace hvdray
