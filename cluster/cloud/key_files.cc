// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/key_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/digest.h"
#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

/// Writes a file so that no other user, and no half of it, is ever seen.
Status WritePrivateKey(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.new", path, ::getpid());
  const auto fault = [&](const char* call) {
    const Status status = ErrnoStatus(call, errno);
    ::unlink(temporary.c_str());
    return Status(ErrorCode::kFileUnwritable, fmt::format("write {}: {}", path, status.message()));
  };
  UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_valid()) return fault("open");
  if (!WriteAll(file.get(), text).ok()) return fault("write");
  if (::fsync(file.get()) != 0) return fault("fsync");
  // link(2), unlike rename(2), replaces nothing.
  if (::link(temporary.c_str(), path.c_str()) != 0) return fault("link");
  ::unlink(temporary.c_str());
  return {};
}

}  // namespace

Status KeyFiles::MakeDirectory() const {
  if (::mkdir(directory_.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return {ErrorCode::kFileUnwritable, ErrnoStatus("make " + directory_, errno).message()};
}

std::set<std::string> KeyFiles::Names() const {
  std::set<std::string> names;
  DIR* open = ::opendir(directory_.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) names.insert(&entry->d_name[0]);
  ::closedir(open);
  return names;
}

// The mark is the key's SHA-256.
bool KeyFiles::HasWritten(const std::string& name) const {
  constexpr size_t kMaxKeyBytes = size_t{64} << 10;
  const Result<std::string> mark = ReadFile(MarkPath(name), kMaxKeyBytes);
  const Result<std::string> key = ReadFile(Path(name), kMaxKeyBytes);
  return mark.ok() && key.ok() && Trimmed(*mark) == Hex(Sha256(*key));
}

Status KeyFiles::Write(const std::string& name, const std::string& key) const {
  ::unlink(MarkPath(name).c_str());  // of a key that is gone
  Status written = WritePrivateKey(MarkPath(name), Hex(Sha256(key)) + "\n");
  if (written.ok()) written = WritePrivateKey(Path(name), key);
  if (!written.ok()) ::unlink(MarkPath(name).c_str());
  return written;
}

void KeyFiles::Remove(const std::string& name) const {
  ::unlink(Path(name).c_str());
  ::unlink(MarkPath(name).c_str());
}

}  // namespace hvdray
