// SPDX-License-Identifier: Apache-2.0
#include "cmd/ssh_options.h"

#include <algorithm>
#include <chrono>

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
  return target;
}

Duration SshConnectTimeoutOf(const JobSpec& spec) {
  const Duration second = std::chrono::seconds(1);
  return std::max<Duration>(second, *spec.start_timeout - second);
}

}  // namespace hvdray
