#include "cmd/library_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "base/environ.h"
#include "cluster/ssh/ssh_shell.h"
#include "launcher/placement/placement.h"

namespace hvdray {
namespace {

HostKeyPolicy PolicyOf(HostKeyCheck check) {
  switch (check) {
    case HostKeyCheck::kAcceptNew:
      return HostKeyPolicy::kAcceptNew;
    case HostKeyCheck::kYes:
      return HostKeyPolicy::kYes;
    case HostKeyCheck::kNo:
      return HostKeyPolicy::kNo;
  }
  return HostKeyPolicy::kYes;
}

// The library takes hosts as people write them; here they go by their plain names.
class LibraryShell : public RemoteShell {
 public:
  LibraryShell(Loop& loop, BlockingPool& pool, const JobSpec& spec, RemoteStderr& errors)
      : default_user_(*spec.ssh_user) {
    for (const HostSlots& host : *spec.hosts) hosts_.emplace(host.host, host);
    Libssh2ShellOptions options;
    options.user = CurrentSshUser(Environment::FromProcess());
    options.overrides.port = *spec.ssh_port;
    options.overrides.identity_file = *spec.ssh_identity_file;
    options.overrides.config_file = *spec.ssh_config_file;
    // What the user's configuration says of a host counts, unless it was said here.
    if (!spec.host_key_check.is_default()) {
      options.overrides.host_key_policy = PolicyOf(*spec.host_key_check);
    }
    // Shorter than ours: it knows why it got no connection, our own limit does not.
    const Duration second = std::chrono::seconds(1);
    options.connect_timeout = std::max<Duration>(second, *spec.start_timeout - second);
    options.on_stderr = [this, &errors](const std::string& target, std::string_view line) {
      const auto plain = plain_names_.find(target);
      errors.OnLine(plain != plain_names_.end() ? plain->second : target, std::string(line));
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
    const std::string& user = host.address.user.empty() ? default_user_ : host.address.user;
    const bool is_v6 = host.dial_name().find(':') != std::string::npos;
    std::string target = is_v6 ? fmt::format("[{}]", host.dial_name()) : host.dial_name();
    if (!user.empty()) target = fmt::format("{}@{}", user, target);
    if (host.address.port != 0) target += fmt::format(":{}", host.address.port);
    return target;
  }

  std::string default_user_;
  std::map<std::string, HostSlots> hosts_;
  std::map<std::string, std::string> plain_names_;
  std::unique_ptr<RemoteShell> shell_;
};

}  // namespace

std::unique_ptr<RemoteShell> MakeLibraryShell(Loop& loop, BlockingPool& pool, const JobSpec& spec,
                                              RemoteStderr& errors) {
  return std::make_unique<LibraryShell>(loop, pool, spec, errors);
}

}  // namespace hvdray
