// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/ssh/ssh_config.h"
#include "cluster/ssh/ssh_target.h"

namespace {

void Require(bool is_true) {
  if (!is_true) std::abort();
}

/// What is refused says so in one line.
void CheckStatus(const hvdray::Status& status) {
  Require(status.code() == hvdray::ErrorCode::kSpecInvalid);
  Require(status.message().find('\n') == std::string::npos);
}

void CheckLines(const std::vector<hvdray::SshConfigLine>& lines) {
  for (const hvdray::SshConfigLine& line : lines) {
    Require(!line.words.empty());
    Require(line.rest.find('\n') == std::string::npos);
    Require(std::none_of(line.keyword.begin(), line.keyword.end(),
                         [](char c) { return c == ' ' || (c >= 'A' && c <= 'Z'); }));
  }
}

void CheckFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) Require(!path.empty() && path != "none");
}

void CheckSettings(const std::vector<hvdray::SshConfigLine>& lines) {
  hvdray::SshTarget target;
  target.host = "node7";
  hvdray::SshOverrides overrides;
  const hvdray::SshUser user = {"eva", "/home/eva", "/run/agent"};
  const auto settings = hvdray::SettingsFromLines(lines, target, overrides, user);
  if (!settings.ok()) return CheckStatus(settings.status());
  Require(settings->port >= 1 && settings->port <= 65535);
  Require(settings->connect_timeout >= hvdray::Duration::zero());
  CheckFiles(settings->identity_files);
  CheckFiles(settings->user_known_hosts_files);
  CheckFiles(settings->global_known_hosts_files);

  // What the command line says is stronger than any file.
  overrides.identity_file = "/key";
  overrides.host_key_policy = hvdray::HostKeyPolicy::kYes;
  target.port = 2222;
  target.user = "root";
  const auto ours = hvdray::SettingsFromLines(lines, target, overrides, user);
  if (!ours.ok()) return CheckStatus(ours.status());
  Require(ours->identity_files.front() == "/key" && ours->has_explicit_identity);
  Require(ours->host_key_policy == hvdray::HostKeyPolicy::kYes);
  Require(ours->port == 2222 && ours->user == "root");
}

void CheckTarget(std::string_view text) {
  const auto target = hvdray::ParseSshTarget(text);
  if (!target.ok()) return Require(target.status().code() == hvdray::ErrorCode::kSpecInvalid);
  Require(!target->host.empty() && target->host[0] != '-' && !target->user.starts_with('-'));
  Require(target->port >= 0 && target->port <= 65535);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::vector<hvdray::SshConfigLine> told = hvdray::ParseSshG(text);
  CheckLines(told);
  CheckSettings(told);
  for (const char* host : {"node7", "a.b", ""}) {
    std::vector<std::string> warnings;
    const std::vector<hvdray::SshConfigLine> lines = hvdray::ReadSshConfig(text, host, warnings);
    CheckLines(lines);
    CheckSettings(lines);
    for (const std::string& warning : warnings) {
      Require(warning.starts_with("line ") && warning.find('\n') == std::string::npos);
    }
  }
  CheckTarget(std::string_view(text).substr(0, text.find('\n')));
  return 0;
}
