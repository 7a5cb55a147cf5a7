// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_identity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/base64.h"
#include "base/fd.h"
#include "base/text.h"
#include "cluster/ssh/wire_text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxKeyBytes = 64 << 10;

Status NotAKey(std::string_view why) {
  return {ErrorCode::kSpecInvalid, fmt::format("not a private key: {}", why)};
}

/// The body of "-----BEGIN X-----" ... "-----END X-----" without line ends, and X.
std::pair<std::string_view, std::string> SplitPem(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  const size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos) return {};
  std::string_view rest = text.substr(begin + kBegin.size());
  const size_t label_end = rest.find("-----");
  if (label_end == std::string_view::npos) return {};
  const std::string_view label = rest.substr(0, label_end);
  rest = rest.substr(label_end + 5);
  const size_t end = rest.find("-----END ");
  if (end == std::string_view::npos) return {};
  std::string body(rest.substr(0, end));
  std::erase_if(body, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  return {label, std::move(body)};
}

/// Fields, by OpenSSH's PROTOCOL.key: magic, cipher, kdf, kdf options, count, public keys, private
/// part.
Result<PrivateKeyFacts> DescribeOpenSsh(const std::string& body) {
  constexpr std::string_view kMagic("openssh-key-v1\0", 15);
  const Result<std::string> bytes = DecodeBase64(body, kMaxKeyBytes);
  if (!bytes.ok()) return NotAKey(bytes.status().message());
  if (!ByteView(*bytes).starts_with(kMagic)) return NotAKey("unknown version");
  SshFields fields(ByteView(*bytes).substr(kMagic.size()));
  const auto cipher = fields.String();
  fields.String();
  fields.String();
  const auto count = fields.Uint32();
  const auto blob = fields.String();
  if (!cipher || !blob || count != 1u) return NotAKey("truncated");
  return PrivateKeyFacts{ToSshKeyType(AlgorithmOfBlob(*blob)), *cipher != "none",
                         std::string(*blob)};
}

Status ReadPrivately(const std::string& path, std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info {};
  if (!fd.is_valid() || ::fstat(fd.get(), &info) != 0) {
    return {ErrorCode::kFileUnreadable, fmt::format("{}: {}", path, ::strerror(errno))};
  }
  if (!S_ISREG(info.st_mode)) return {ErrorCode::kFileUnreadable, path + ": not a regular file"};
  // Like ssh: only our own files can have the wrong mode by mistake.
  if (info.st_uid == ::getuid() && (info.st_mode & 077) != 0) {
    return {ErrorCode::kSpecInvalid,
            fmt::format("{}: the private key is readable by others (mode {:04o})", path,
                        info.st_mode & 07777),
            fmt::format("chmod 600 {}", path)};
  }
  text.resize(kMaxKeyBytes + 1);
  size_t size = 0;
  for (ssize_t n; size < text.size(); size += static_cast<size_t>(n)) {
    n = ::read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0) {
      return {ErrorCode::kFileUnreadable, fmt::format("{}: {}", path, ::strerror(errno))};
    }
    if (n == 0) break;
  }
  if (size > kMaxKeyBytes) return {ErrorCode::kSpecInvalid, path + ": too long for a private key"};
  text.resize(size);
  return {};
}

}  // namespace

std::string_view SshKeyTypeName(SshKeyType type) {
  switch (type) {
    case SshKeyType::kEd25519:
      return "ed25519";
    case SshKeyType::kEcdsa:
      return "ecdsa";
    case SshKeyType::kRsa:
      return "RSA";
    case SshKeyType::kDsa:
      return "DSA";
    case SshKeyType::kSecurityKey:
      return "hardware";
    case SshKeyType::kCertificate:
      return "certificate";
    case SshKeyType::kUnknown:
      break;
  }
  return "unknown";
}

SshKeyType ToSshKeyType(std::string_view algorithm) {
  if (algorithm.ends_with("-cert-v01@openssh.com")) return SshKeyType::kCertificate;
  if (algorithm.starts_with("sk-")) return SshKeyType::kSecurityKey;
  if (algorithm == "ssh-ed25519") return SshKeyType::kEd25519;
  if (algorithm == "ecdsa-sha2-nistp256" || algorithm == "ecdsa-sha2-nistp384" ||
      algorithm == "ecdsa-sha2-nistp521") {
    return SshKeyType::kEcdsa;
  }
  if (algorithm == "ssh-rsa" || algorithm.starts_with("rsa-sha2-")) return SshKeyType::kRsa;
  if (algorithm == "ssh-dss") return SshKeyType::kDsa;
  return SshKeyType::kUnknown;
}

std::string_view AlgorithmOfBlob(ByteView blob) {
  return SshFields(blob).String().value_or(ByteView());
}

bool CanSignWithLibssh2(SshKeyType type) {
  return type == SshKeyType::kEd25519 || type == SshKeyType::kEcdsa || type == SshKeyType::kUnknown;
}

Result<PrivateKeyFacts> DescribePrivateKey(std::string_view text) {
  const auto [label, body] = SplitPem(text);
  if (label == "OPENSSH PRIVATE KEY") return DescribeOpenSsh(body);
  PrivateKeyFacts facts;
  facts.is_encrypted = text.find("Proc-Type: 4,ENCRYPTED") != std::string_view::npos;
  if (label == "RSA PRIVATE KEY") {
    facts.type = SshKeyType::kRsa;
  } else if (label == "EC PRIVATE KEY") {
    facts.type = SshKeyType::kEcdsa;
  } else if (label == "DSA PRIVATE KEY") {
    facts.type = SshKeyType::kDsa;
  } else if (label == "ENCRYPTED PRIVATE KEY") {
    facts.is_encrypted = true;
  } else if (label.empty()) {
    return NotAKey("no '-----BEGIN ... PRIVATE KEY-----' to '-----END'");
  } else if (label != "PRIVATE KEY") {
    return NotAKey(fmt::format("it is a {}", ShownText(label)));
  }
  return facts;
}

std::string BlobOfPublicKeyLine(std::string_view line) {
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return {};
  const std::string_view rest = line.substr(blank + 1);
  const size_t end = std::min(rest.find_first_of(" \t\r\n"), rest.size());
  Result<std::string> blob = DecodeBase64(rest.substr(0, end), kMaxKeyBytes);
  if (!blob.ok() || AlgorithmOfBlob(*blob) != line.substr(0, blank)) return {};
  return std::move(*blob);
}

SshIdentity LoadSshIdentity(const std::string& path) {
  SshIdentity identity;
  identity.path = path;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) return identity;
  identity.exists = true;
  identity.has_certificate = ::access((path + "-cert.pub").c_str(), F_OK) == 0;
  identity.problem = ReadPrivately(path, identity.text);
  if (identity.problem.ok()) {
    Result<PrivateKeyFacts> facts = DescribePrivateKey(identity.text);
    if (facts.ok()) {
      identity.facts = std::move(*facts);
    } else {
      identity.problem = std::move(facts).status().WithContext(path);
    }
  }
  if (!identity.problem.ok()) identity.text.clear();
  if (identity.facts.public_blob.empty()) {
    const Result<std::string> line = ReadFile(path + ".pub", kMaxKeyBytes);
    if (line.ok()) identity.facts.public_blob = BlobOfPublicKeyLine(*line);
    if (identity.facts.type == SshKeyType::kUnknown) {
      identity.facts.type = ToSshKeyType(AlgorithmOfBlob(identity.facts.public_blob));
    }
  }
  return identity;
}

}  // namespace hvdray
