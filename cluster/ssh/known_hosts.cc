// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/known_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/base64.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "cluster/ssh/ssh_config.h"
#include "cluster/ssh/ssh_identity.h"

namespace hvdray {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr size_t kMaxPublicKeyBytes = 64 << 10;

enum class Marker : uint8_t { kNone, kRevoked, kAuthority, kOther };

// The holder of a lock only adds one line; this allows for a slow file system.
constexpr Duration kLockPatience = std::chrono::seconds(2);
constexpr Duration kLockPause = std::chrono::milliseconds(20);

struct Line {
  Marker marker = Marker::kNone;
  std::string_view names;
  std::string_view algorithm;
  std::string_view key;
};

std::string_view TakeWord(std::string_view& text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
  text.remove_prefix(begin);
  const size_t end = std::min(text.find_first_of(" \t\r"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

std::optional<Line> ParseLine(std::string_view text) {
  Line line;
  line.names = TakeWord(text);
  if (line.names.empty() || line.names[0] == '#') return std::nullopt;
  if (line.names[0] == '@') {
    line.marker = line.names == "@revoked"          ? Marker::kRevoked
                  : line.names == "@cert-authority" ? Marker::kAuthority
                                                    : Marker::kOther;
    line.names = TakeWord(text);
  }
  line.algorithm = TakeWord(text);
  line.key = TakeWord(text);
  if (line.key.empty()) return std::nullopt;
  return line;
}

/// "|1|salt|hash": HMAC-SHA1 of the name under the salt.
bool MatchesHashed(std::string_view hashed, std::string_view name) {
  if (!hashed.starts_with("|1|")) return false;
  hashed.remove_prefix(3);
  const size_t bar = hashed.find('|');
  if (bar == std::string_view::npos) return false;
  const Result<std::string> salt = DecodeBase64(hashed.substr(0, bar), 64);
  const Result<std::string> hash = DecodeBase64(hashed.substr(bar + 1), 64);
  return salt.ok() && hash.ok() && HmacSha1(*salt, name) == *hash;
}

bool MatchesNames(std::string_view names, std::string_view name) {
  if (names.starts_with('|')) return MatchesHashed(names, name);
  bool is_match = false;
  for (;;) {
    const size_t comma = std::min(names.find(','), names.size());
    const std::string pattern = Lower(names.substr(0, comma));
    const bool is_negated = pattern.starts_with('!');
    if (MatchesPattern(is_negated ? pattern.substr(1) : pattern, name)) {
      if (is_negated) return false;
      is_match = true;
    }
    if (comma == names.size()) return is_match;
    names.remove_prefix(comma + 1);
  }
}

/// Calls function(file, line number, Line) for each line about `name`.
template <typename F>
void ForEachLineOf(std::span<const KnownHostsFile> files, std::string_view name, F function) {
  for (const KnownHostsFile& file : files) {
    int number = 0;
    for (const std::string_view text : LinesOf(file.text)) {
      ++number;
      const std::optional<Line> line = ParseLine(text);
      if (line && MatchesNames(line->names, name)) function(file, number, *line);
    }
  }
}

Status MakeDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return {};
  // Creates one level only: the parent is the home directory, which is not ours to create.
  const std::string directory = path.substr(0, slash);
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return ErrnoStatus("mkdir " + directory, errno);
}

/// Waits with a limit and for cancellation, so that another process's lock can't delay a job's end.
Status Lock(int fd, const SshLimit& limit) {
  const SshLimit patience = limit.NoLaterThan(kLockPatience);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus("flock", errno);
    if (patience.Remaining() == Duration::zero()) {
      return {ErrorCode::kDeadlineExceeded, "locked by another process"};
    }
    pollfd cancel{limit.cancel_fd, POLLIN, 0};
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(kLockPause);
    if (::poll(&cancel, 1, static_cast<int>(pause.count())) > 0) {
      return {ErrorCode::kCancelled, "cancelled"};
    }
  }
  return {};
}

/// Looks again under the file's lock: another connection may have added the host meanwhile.
Result<HostKeyLookup> AddUnlessThere(const SshSettings& settings, const std::string& path,
                                     std::string_view name, ByteView blob, const SshLimit& limit) {
  HVDRAY_RETURN_IF_ERROR(MakeDirectoryOf(path));
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600));
  if (!fd.is_valid()) return ErrnoStatus("open", errno);
  HVDRAY_RETURN_IF_ERROR(Lock(fd.get(), limit));
  const std::vector<KnownHostsFile> files = ReadKnownHosts(settings);
  HostKeyLookup now = LookUpHostKey(files, name, blob);
  if (now.match != HostKeyMatch::kUnknown) return now;

  std::string text;
  struct stat info {};
  char last = '\n';
  if (::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
      ::pread(fd.get(), &last, 1, info.st_size - 1) == 1 && last != '\n') {
    text.push_back('\n');  // the last line lacks its newline
  }
  text += KnownHostsLine(name, blob, settings.hash_known_hosts ? RandomBytes(20) : "");
  text += '\n';
  const ssize_t n = ::write(fd.get(), text.data(), text.size());
  if (n < 0) return ErrnoStatus("write", errno);
  return now;
}

Status Refuse(const HostKeyLookup& found, std::string_view host, ByteView blob) {
  const std::string algorithm = ShownText(AlgorithmOfBlob(blob));
  if (found.match == HostKeyMatch::kRevoked) {
    return {ErrorCode::kHostKeyRejected,
            fmt::format("host key of {} ({} {}) is revoked at {}:{}", host, algorithm,
                        found.fingerprint, found.path, found.line),
            "this may be an attack; ask the host's administrator"};
  }
  return {ErrorCode::kHostKeyRejected,
          fmt::format("host key of {} has changed: it shows {} {}, {}:{} has {}", host, algorithm,
                      HostKeyFingerprint(blob), found.path, found.line, found.fingerprint),
          fmt::format("this may be an attack; if the host was reinstalled, delete line {} of {}",
                      found.line, found.path)};
}

Status RefuseUnknown(std::string_view name, std::string_view host, ByteView blob) {
  return {ErrorCode::kHostKeyRejected,
          fmt::format("host key of {} ({} {}) is not known", host, ShownText(AlgorithmOfBlob(blob)),
                      HostKeyFingerprint(blob)),
          fmt::format("add {} to known_hosts, or use --strict-host-key-checking accept-new", name)};
}

Result<HostKeyMatch> Judge(const HostKeyLookup& found, HostKeyPolicy policy, std::string_view host,
                           ByteView blob) {
  if (found.match == HostKeyMatch::kKnown) return found.match;
  Status refusal = Refuse(found, host, blob);
  if (found.match == HostKeyMatch::kChanged && policy == HostKeyPolicy::kNo) {
    Log(LogLevel::kWarning, "ssh", "{}", refusal.message());
    return found.match;
  }
  return refusal;
}

/// `name`: in known_hosts; `shown`: in messages.
Result<HostKeyMatch> CheckName(const SshSettings& settings, const std::string& name,
                               std::string_view shown, ByteView blob, const SshLimit& limit) {
  const HostKeyLookup found = LookUpHostKey(ReadKnownHosts(settings), name, blob);
  if (found.match != HostKeyMatch::kUnknown) {
    return Judge(found, settings.host_key_policy, shown, blob);
  }
  if (settings.host_key_policy == HostKeyPolicy::kYes) return RefuseUnknown(name, shown, blob);
  if (settings.user_known_hosts_files.empty()) return HostKeyMatch::kUnknown;
  const std::string& path = settings.user_known_hosts_files[0];
  const Result<HostKeyLookup> added = AddUnlessThere(settings, path, name, blob, limit);
  if (added.status().code() == ErrorCode::kCancelled) return added.status();
  if (!added.ok()) {
    Log(LogLevel::kWarning, "ssh", "host key of {} was not saved: {}: {}", shown, path,
        added.status().message());
    return HostKeyMatch::kUnknown;
  }
  if (added->match == HostKeyMatch::kUnknown) return HostKeyMatch::kUnknown;
  return Judge(*added, settings.host_key_policy, shown, blob);
}

}  // namespace

std::string KnownHostsName(std::string_view host, int port) {
  const std::string name = Lower(host);
  return port == 22 ? name : fmt::format("[{}]:{}", name, port);
}

std::string HostKeyFingerprint(ByteView blob) {
  std::string text = EncodeBase64(Sha256(blob));
  while (text.ends_with('=')) text.pop_back();
  return "SHA256:" + text;
}

HostKeyLookup LookUpHostKey(std::span<const KnownHostsFile> files, std::string_view name,
                            ByteView blob) {
  const std::string key = EncodeBase64(blob);
  HostKeyLookup known;
  HostKeyLookup other;
  HostKeyLookup revoked;
  ForEachLineOf(files, name, [&](const KnownHostsFile& file, int number, const Line& line) {
    const bool is_same = line.key == key;
    HostKeyLookup* slot = is_same ? &known : &other;
    if (line.marker == Marker::kRevoked) slot = is_same ? &revoked : nullptr;
    if (line.marker == Marker::kAuthority || line.marker == Marker::kOther) slot = nullptr;
    if (slot == nullptr || slot->line != 0) return;
    const Result<std::string> bytes = DecodeBase64(line.key, kMaxPublicKeyBytes);
    if (!bytes.ok()) return;
    *slot = {HostKeyMatch::kUnknown, file.path, number, HostKeyFingerprint(*bytes)};
  });
  known.match = HostKeyMatch::kKnown;
  other.match = HostKeyMatch::kChanged;
  revoked.match = HostKeyMatch::kRevoked;
  for (const HostKeyLookup* found : {&revoked, &known, &other}) {
    if (found->line != 0) return *found;
  }
  return {};
}

std::vector<std::string> KnownAlgorithms(std::span<const KnownHostsFile> files,
                                         std::string_view name) {
  std::vector<std::string> algorithms;
  ForEachLineOf(files, name, [&](const KnownHostsFile&, int, const Line& line) {
    const std::string algorithm(line.algorithm);
    if (line.marker == Marker::kNone &&
        std::find(algorithms.begin(), algorithms.end(), algorithm) == algorithms.end()) {
      algorithms.push_back(algorithm);
    }
  });
  return algorithms;
}

bool HasHostAuthority(std::span<const KnownHostsFile> files, std::string_view name) {
  bool has_authority = false;
  ForEachLineOf(files, name, [&](const KnownHostsFile&, int, const Line& line) {
    has_authority = has_authority || line.marker == Marker::kAuthority;
  });
  return has_authority;
}

std::string KnownHostsLine(std::string_view name, ByteView blob, ByteView salt) {
  const std::string shown = salt.empty() ? std::string(name)
                                         : fmt::format("|1|{}|{}", EncodeBase64(salt),
                                                       EncodeBase64(HmacSha1(salt, name)));
  return fmt::format("{} {} {}", shown, AlgorithmOfBlob(blob), EncodeBase64(blob));
}

std::vector<KnownHostsFile> ReadKnownHosts(const SshSettings& settings) {
  std::vector<KnownHostsFile> files;
  for (const auto* paths : {&settings.user_known_hosts_files, &settings.global_known_hosts_files}) {
    for (const std::string& path : *paths) {
      struct stat info {};
      if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      Result<std::string> text = ReadFile(path, kMaxFileBytes);
      if (text.ok()) {
        files.push_back({path, std::move(*text)});
      } else {
        Log(LogLevel::kWarning, "ssh", "{}", text.status().message());
      }
    }
  }
  return files;
}

Result<HostKeyMatch> CheckHostKey(const SshSettings& settings, std::string_view host, ByteView blob,
                                  const SshLimit& limit) {
  const std::string& alias = settings.host_key_alias;
  const std::string name =
      alias.empty() ? KnownHostsName(settings.host_name, settings.port) : Lower(alias);
  return CheckName(settings, name, host, blob, limit);
}

Status CheckHostAddress(const SshSettings& settings, const std::string& address, ByteView blob,
                        const SshLimit& limit) {
  SshSettings by_address = settings;
  // The host has proved itself by its name, so a new address is only recorded.
  if (by_address.host_key_policy == HostKeyPolicy::kYes) {
    by_address.host_key_policy = HostKeyPolicy::kAcceptNew;
  }
  const std::string shown = fmt::format("{} at {}", settings.host_name, address);
  return CheckName(by_address, KnownHostsName(address, settings.port), shown, blob, limit).status();
}

}  // namespace hvdray
