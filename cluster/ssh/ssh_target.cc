// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/name_service.h"
#include "base/text.h"

namespace hvdray {
namespace {

Status BadHost(std::string_view text, std::string_view why) {
  return {ErrorCode::kSpecInvalid, fmt::format("host '{}': {}", text, why)};
}

Status TakePort(std::string_view text, std::string_view digits, SshTarget& target) {
  const auto port = ParseInteger<uint16_t>(digits);
  if (!port || *port == 0) {
    return BadHost(text, fmt::format("port '{}' is not within 1 to 65535", digits));
  }
  target.port = *port;
  return {};
}

}  // namespace

Result<HostKeyPolicy> ParseHostKeyPolicy(std::string_view text) {
  if (text == "yes" || text == "true") return HostKeyPolicy::kYes;
  if (text == "accept-new") return HostKeyPolicy::kAcceptNew;
  if (text == "no" || text == "off" || text == "false") return HostKeyPolicy::kNo;
  return Status(ErrorCode::kUsage, fmt::format("invalid host key checking '{}'", text),
                "expected yes, accept-new or no");
}

Status CheckSshTarget(const SshTarget& target) {
  const std::string text =
      target.user.empty() ? target.host : fmt::format("{}@{}", target.user, target.host);
  if (target.host.empty()) return BadHost(text, "no name");
  if (target.host[0] == '-' || target.user.starts_with('-')) {
    return BadHost(text, "a name must not begin with '-'");
  }
  const auto is_bad = [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == 0x7f ||
           std::string_view("\"'`$\\;&<>|(){}").find(c) != std::string_view::npos;
  };
  if (std::any_of(text.begin(), text.end(), is_bad)) {
    return BadHost(text, "a name must not contain blanks, quotes or shell characters");
  }
  return {};
}

Result<SshTarget> ParseSshTarget(std::string_view text) {
  SshTarget target;
  std::string_view rest = text;
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    target.user = rest.substr(0, at);
    if (target.user.empty()) return BadHost(text, "no user before '@'");
    rest = rest.substr(at + 1);
  }
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return BadHost(text, "'[' without ']'");
    target.host = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return BadHost(text, "only a port may follow ']'");
    if (!rest.empty()) HVDRAY_RETURN_IF_ERROR(TakePort(text, rest.substr(1), target));
  } else if (std::count(rest.begin(), rest.end(), ':') == 1) {
    const size_t colon = rest.find(':');
    target.host = rest.substr(0, colon);
    HVDRAY_RETURN_IF_ERROR(TakePort(text, rest.substr(colon + 1), target));
  } else {
    target.host = rest;
  }
  HVDRAY_RETURN_IF_ERROR(CheckSshTarget(target));
  return target;
}

SshUser CurrentSshUser(const Environment& environment) {
  SshUser user;
  if (const std::optional<UserEntry> entry = FindUser(::getuid())) {
    user.name = entry->name;
    user.home = entry->home;
  }
  if (user.name.empty()) user.name = environment.GetOr("USER", "");
  if (user.home.empty()) user.home = environment.GetOr("HOME", "");
  user.agent_socket = environment.GetOr("SSH_AUTH_SOCK", "");
  return user;
}

}  // namespace hvdray
