// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/job_ssh.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/environ.h"
#include "base/fd.h"
#include "base/text.h"
#include "cluster/ssh/ssh_config_source.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

constexpr const char* kSsh = "ssh";  // in messages

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

std::string WordOf(HostKeyPolicy policy) {
  switch (policy) {
    case HostKeyPolicy::kAcceptNew:
      return "accept-new";
    case HostKeyPolicy::kYes:
      return "yes";
    case HostKeyPolicy::kNo:
      return "no";
  }
  return "yes";
}

/// What jobs in the pool need: they may outlive the shell for a moment.
struct Lookup {
  explicit Lookup(const JobSpec& spec)
      : configs(ToSshOverrides(spec), CurrentSshUser(Environment::FromProcess()),
                OpensshOptions().program),
        timeout(SshConnectTimeout(spec)),
        cancel(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  SshConfigSource configs;
  const Duration timeout;
  const UniqueFd cancel;  // readable: give up
};

/// A wrapper called ssh may not know -G; ssh itself will report a wrong configuration.
OpensshNeeds NeedsOr(Result<OpensshNeeds> found, const JobSpec& spec) {
  if (found.ok()) return std::move(found).value();
  OpensshNeeds needs;
  needs.host_key_policy = ToSshOverrides(spec).host_key_policy.value_or(needs.host_key_policy);
  return needs;
}

class OpensshShell : public RemoteShell {
 public:
  OpensshShell(Loop& loop, BlockingPool& pool, const JobSpec& spec, const HostsByName& hosts,
               RemoteStderr& errors)
      : pool_(pool), spec_(spec), hosts_(hosts), lookup_(std::make_shared<Lookup>(spec)) {
    ShellArgv argv = [this](const std::string& host, const std::string& command) {
      return Argv(host, command);
    };
    shell_ = MakeCommandShell(loop, kSsh, std::move(argv), errors, ChildEnd::kDropped);
  }

  ~OpensshShell() override { GiveUpLookups(); }

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    if (needs_.contains(host)) return shell_->Run(host, command, std::move(done));
    pool_.Run<Result<OpensshNeeds>>(
        [lookup = lookup_, target = ToSshTarget(spec_, hosts_.at(host))] {
          const SshLimit limit = SshLimit::In(lookup->timeout, lookup->cancel.get());
          return lookup->configs.NeedsOfOpenssh(target, limit);
        },
        [this, alive = std::weak_ptr<bool>(alive_), host, command,
         done = std::move(done)](Result<OpensshNeeds> needs) {
          if (alive.expired()) return;
          needs_[host] = NeedsOr(std::move(needs), spec_);
          // For RemoteStderr::HasLoggedIn().
          for (std::string& option : needs_[host].session_options) {
            if (option.starts_with("LogVerbose=")) option += ",*:ssh_userauth2():*";
          }
          shell_->Run(host, command, done);
        });
  }

  Status Explain(const std::string& host, const Status& how,
                 const std::vector<std::string>& lines) const override {
    const bool is_ours = how.message() == fmt::format("{} exited with code {}", kSsh, kSshFailed);
    if (!is_ours) return RemoteShell::Explain(host, how, lines);
    return ExplainOpenssh(how, lines, OptionsOf(host).proxy);
  }

  void Close() override {
    alive_.reset();
    GiveUpLookups();
    shell_->Close();
  }

 private:
  void GiveUpLookups() const {
    const uint64_t one = 1;
    (void)WriteAll(lookup_->cancel.get(),
                   ByteView(reinterpret_cast<const char*>(&one), sizeof one));
  }

  std::vector<std::string> Argv(const std::string& host, const std::string& command) const {
    return OpensshArgv(OptionsOf(host), hosts_.at(host).dial_name(), command);
  }

  OpensshOptions OptionsOf(const std::string& host) const {
    return ToOpensshOptions(spec_, hosts_.at(host), needs_.at(host));
  }

  BlockingPool& pool_;
  const JobSpec spec_;
  const HostsByName& hosts_;
  const std::shared_ptr<Lookup> lookup_;  // with the jobs in the pool
  std::map<std::string, OpensshNeeds> needs_;
  std::unique_ptr<RemoteShell> shell_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // null once closed
};

}  // namespace

SshOverrides ToSshOverrides(const JobSpec& spec) {
  SshOverrides overrides;
  overrides.port = *spec.ssh_port;
  overrides.identity_file = *spec.ssh_identity_file;
  overrides.config_file = *spec.ssh_config_file;
  if (!spec.host_key_check.is_default()) overrides.host_key_policy = PolicyOf(*spec.host_key_check);
  return overrides;
}

SshTarget ToSshTarget(const JobSpec& spec, const HostSlots& host) {
  SshTarget target;
  target.host = host.dial_name();
  target.user = host.address.user.empty() ? *spec.ssh_user : host.address.user;
  target.port = host.address.port;
  target.host_key_alias = host.address.host_key_alias;
  return target;
}

Duration SshConnectTimeout(const JobSpec& spec) {
  const Duration second = std::chrono::seconds(1);
  return std::max<Duration>(second, *spec.start_timeout - second);
}

OpensshOptions ToOpensshOptions(const JobSpec& spec, const HostSlots& host,
                                const OpensshNeeds& needs) {
  const SshTarget dialled = ToSshTarget(spec, host);
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(SshConnectTimeout(spec));
  OpensshOptions ssh;
  ssh.port = dialled.port != 0 ? dialled.port : *spec.ssh_port;
  ssh.user = dialled.user;
  ssh.host_key_alias = dialled.host_key_alias;
  ssh.identity_file = *spec.ssh_identity_file;
  ssh.proxy_command = *spec.ssh_proxy_command;
  ssh.config_file = *spec.ssh_config_file;
  ssh.strict_host_key_checking = WordOf(needs.host_key_policy);
  ssh.session_options = needs.session_options;
  ssh.has_own_forwards = needs.has_forwards;
  ssh.proxy =
      ssh.proxy_command.empty() ? needs.proxy : "ProxyCommand " + ShownText(ssh.proxy_command);
  ssh.connect_timeout_s = std::max(1, static_cast<int>(limit.count()));
  return ssh;
}

OpensshOptions OpensshOptionsFor(const JobSpec& spec, const HostSlots& host) {
  const SshLimit limit = SshLimit::In(SshConnectTimeout(spec), -1);
  Result<OpensshNeeds> needs = Lookup(spec).configs.NeedsOfOpenssh(ToSshTarget(spec, host), limit);
  return ToOpensshOptions(spec, host, NeedsOr(std::move(needs), spec));
}

std::unique_ptr<RemoteShell> MakeOpensshShell(Loop& loop, BlockingPool& pool, const JobSpec& spec,
                                              const HostsByName& hosts, RemoteStderr& errors) {
  return std::make_unique<OpensshShell>(loop, pool, spec, hosts, errors);
}

}  // namespace hvdray
