// SPDX-License-Identifier: Apache-2.0
#include "cmd/job_ssh.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/environ.h"
#include "base/fd.h"
#include "cluster/ssh/ssh_config_source.h"
#include "launcher/job/hostfile.h"

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
      : configs(SshOverridesOf(spec), CurrentSshUser(Environment::FromProcess()),
                OpensshOptions().program),
        policy(SshOverridesOf(spec).host_key_policy),
        timeout(SshConnectTimeoutOf(spec)),
        cancel(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  SshConfigSource configs;
  const std::optional<HostKeyPolicy> policy;  // for all hosts
  const Duration timeout;
  const UniqueFd cancel;  // readable: give up
};

class OpensshShell : public RemoteShell {
 public:
  OpensshShell(Loop& loop, BlockingPool& pool, const JobSpec& spec, const HostsByName& hosts,
               RemoteStderr& errors)
      : pool_(pool), spec_(spec), hosts_(hosts), lookup_(std::make_shared<Lookup>(spec)) {
    ShellArgv argv = [this](const std::string& host, const std::string& command) {
      return ArgvOf(host, command);
    };
    shell_ = MakeCommandShell(loop, "ssh", std::move(argv), errors, ChildEnd::kDropped);
  }

  ~OpensshShell() override { GiveUpLookups(); }

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    if (lookup_->policy) policies_[host] = *lookup_->policy;
    if (policies_.contains(host)) return shell_->Run(host, command, std::move(done));
    pool_.Run<Result<HostKeyPolicy>>(
        [lookup = lookup_, target = SshTargetOf(spec_, hosts_.at(host))] {
          const SshLimit limit = SshLimit::In(lookup->timeout, lookup->cancel.get());
          return lookup->configs.HostKeys(target, limit);
        },
        [this, alive = std::weak_ptr<bool>(alive_), host, command,
         done = std::move(done)](const Result<HostKeyPolicy>& policy) {
          if (alive.expired()) return;
          // A wrapper called ssh may not know -G; ssh itself will report a wrong configuration.
          policies_[host] = policy.value_or(HostKeyPolicy::kAcceptNew);
          shell_->Run(host, command, done);
        });
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

  std::vector<std::string> ArgvOf(const std::string& host, const std::string& command) const {
    const HostSlots& target = hosts_.at(host);
    const OpensshOptions ssh = OpensshOptionsOf(spec_, target, policies_.at(host));
    return OpensshArgv(ssh, target.dial_name(), command);
  }

  BlockingPool& pool_;
  const JobSpec spec_;
  const HostsByName& hosts_;
  const std::shared_ptr<Lookup> lookup_;  // with the jobs in the pool
  std::map<std::string, HostKeyPolicy> policies_;
  std::unique_ptr<RemoteShell> shell_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // null once closed
};

}  // namespace

SshOverrides SshOverridesOf(const JobSpec& spec) {
  SshOverrides overrides;
  overrides.port = *spec.ssh_port;
  overrides.identity_file = *spec.ssh_identity_file;
  overrides.config_file = *spec.ssh_config_file;
  if (!spec.host_key_check.is_default()) overrides.host_key_policy = PolicyOf(*spec.host_key_check);
  return overrides;
}

SshTarget SshTargetOf(const JobSpec& spec, const HostSlots& host) {
  SshTarget target;
  target.host = host.dial_name();
  target.user = host.address.user.empty() ? *spec.ssh_user : host.address.user;
  target.port = host.address.port;
  target.host_key_alias = host.address.host_key_alias;
  return target;
}

Duration SshConnectTimeoutOf(const JobSpec& spec) {
  const Duration second = std::chrono::seconds(1);
  return std::max<Duration>(second, *spec.start_timeout - second);
}

OpensshOptions OpensshOptionsOf(const JobSpec& spec, const HostSlots& host, HostKeyPolicy policy) {
  const SshTarget dialled = SshTargetOf(spec, host);
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(SshConnectTimeoutOf(spec));
  OpensshOptions ssh;
  ssh.port = dialled.port != 0 ? dialled.port : *spec.ssh_port;
  ssh.user = dialled.user;
  ssh.host_key_alias = dialled.host_key_alias;
  ssh.identity_file = *spec.ssh_identity_file;
  ssh.proxy_command = *spec.ssh_proxy_command;
  ssh.config_file = *spec.ssh_config_file;
  ssh.strict_host_key_checking = WordOf(policy);
  ssh.connect_timeout_s = std::max(1, static_cast<int>(limit.count()));
  return ssh;
}

OpensshOptions OpensshOptionsFor(const JobSpec& spec, const HostSlots& host) {
  const SshLimit limit = SshLimit::In(SshConnectTimeoutOf(spec), -1);
  const Result<HostKeyPolicy> policy =
      Lookup(spec).configs.HostKeys(SshTargetOf(spec, host), limit);
  // A wrapper called ssh may not know -G; ssh itself will report a wrong configuration.
  return OpensshOptionsOf(spec, host, policy.value_or(HostKeyPolicy::kAcceptNew));
}

std::unique_ptr<RemoteShell> MakeOpensshShell(Loop& loop, BlockingPool& pool, const JobSpec& spec,
                                              const HostsByName& hosts, RemoteStderr& errors) {
  return std::make_unique<OpensshShell>(loop, pool, spec, hosts, errors);
}

}  // namespace hvdray
