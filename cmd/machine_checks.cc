// SPDX-License-Identifier: Apache-2.0
#include "cmd/machine_checks.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "base/descriptor_name.h"
#include "base/fd.h"

namespace hvdray {
namespace {

/// 0, or why nobody can start in it.
int ErrorOfDirectory(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return errno;
  if (!S_ISDIR(facts.st_mode)) return ENOTDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

/// Where a report would end up; empty for what takes several writers (a terminal, /dev/null).
std::string FileBehind(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty() || DescriptorNamedBy(path) >= 0) return {};
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error || (fs::exists(real, error) && !fs::is_regular_file(real, error))) return {};
  return real.string();
}

/// As those who listen on all addresses do it. What else may be wrong is left to them.
bool IsTaken(uint16_t port) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool is_v6 = fd.is_valid();
  if (!is_v6) fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  const int bound = is_v6 ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6)
                          : ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  return bound != 0 && errno == EADDRINUSE;
}

}  // namespace

Status CheckDirectoryHere(const LaunchPlan& plan) {
  const Setting<std::string>& directory = plan.spec.working_directory;
  const bool is_any_here =
      std::find(plan.is_remote.begin(), plan.is_remote.end(), false) != plan.is_remote.end();
  if (directory->empty() || !is_any_here) return {};
  const int error = ErrorOfDirectory(*directory);
  if (error == 0) return {};
  return {ErrorCode::kUsage,
          fmt::format("{}: workers cannot start in '{}': {}", directory.origin(), *directory,
                      ::strerror(error)),
          "make that directory, or leave --cwd out: they start where hvdray does"};
}

Status CheckDistinctFiles(const JobSpec& spec) {
  const std::array<const Setting<std::string>*, 5> files = {
      &spec.report_file, &spec.events_file, &spec.junit_file, &spec.trace_file, &spec.record_file};
  std::map<std::string, const Setting<std::string>*> seen;
  for (const Setting<std::string>* file : files) {
    const std::string real = FileBehind(**file);
    if (real.empty()) continue;
    const auto [first, is_new] = seen.emplace(real, file);
    if (is_new) continue;
    return {ErrorCode::kUsage,
            fmt::format("{} and {} name the same file '{}'", first->second->origin(),
                        file->origin(), **file),
            "each needs a file of its own"};
  }
  return {};
}

Status CheckMasterPortHere(const LaunchPlan& plan) {
  const auto& port = plan.spec.master_port;
  if (*port == 0 || plan.ranks.empty()) return {};
  if (plan.is_remote[static_cast<size_t>(plan.ranks[0].host_index)] || !IsTaken(*port)) return {};
  return {ErrorCode::kAddressInUse,
          fmt::format("{}: port {} of this machine is in use, and rank 0 is to listen there",
                      port.origin(), *port),
          "name another port, or leave --master-port out: a free one is found"};
}

}  // namespace hvdray
