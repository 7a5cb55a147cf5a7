// SPDX-License-Identifier: Apache-2.0
#include "agent/object_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/sealed_memory.h"

namespace hvdray {
namespace {

Status Violation(int64_t object, std::string_view what) {
  return {ErrorCode::kProtocolError, fmt::format("object {}: {}", object, what)};
}

// Returns 0 or an errno.
int Store(int fd, const std::string& bytes, uint64_t offset) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    done += static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace

Result<std::optional<wire::ObjectProblem>> ObjectStore::Add(const wire::ObjectPiece& piece) {
  auto found = objects_.find(piece.object);
  const bool is_new = found == objects_.end() && piece.offset == 0;
  if (is_new) found = objects_.try_emplace(piece.object, Object{.size = piece.size}).first;
  if (found == objects_.end()) return std::optional<wire::ObjectProblem>();
  Object& object = found->second;
  const bool is_next = piece.offset == object.stored && piece.size == object.size &&
                       piece.bytes.size() <= object.size - object.stored &&
                       (is_new || !piece.bytes.empty());
  if (!is_next) return Violation(piece.object, "a piece out of order");
  int error = 0;
  if (is_new) {
    object.fd.Reset(::memfd_create("hvdray-object", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!object.fd.is_valid()) error = errno;
  }
  object.stored += piece.bytes.size();
  if (!object.fd.is_valid() && error == 0) return std::optional<wire::ObjectProblem>();
  if (error == 0) error = Store(object.fd.get(), piece.bytes, piece.offset);
  if (error == 0 && object.stored == object.size) error = SealMemory(object.fd.get());
  if (error == 0) return std::optional<wire::ObjectProblem>();
  object.fd.Reset();
  return std::optional(wire::ObjectProblem{piece.object, error});
}

Result<wire::ObjectProblem> ObjectStore::Map(int64_t number, uint32_t pid, int descriptor) {
  const auto [found, is_new] = objects_.try_emplace(number);
  if (!is_new) return Violation(number, "is here already");
  Object& object = found->second;
  if (const int error = OpenSealedMemory(pid, descriptor, object.fd); error != 0) {
    object.fd.Reset();
    return wire::ObjectProblem{number, error};
  }
  object.size = object.stored = SealedSize(object.fd.get()).value();
  return wire::ObjectProblem{number, 0};
}

Result<ObjectStore::View> ObjectStore::Get(int64_t object) const {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return Violation(object, "is not here");
  View view;
  view.size = found->second.size;
  if (!found->second.fd.is_valid()) return view;
  if (found->second.stored < found->second.size) return Violation(object, "is not complete");
  // A descriptor with an offset of its own, which can't be written through.
  view.fd.Reset(::open(fmt::format("/proc/self/fd/{}", found->second.fd.get()).c_str(),
                       O_RDONLY | O_CLOEXEC));
  if (!view.fd.is_valid()) return ErrnoStatus("open an object", errno);
  return view;
}

void ObjectStore::Drop(int64_t object) { objects_.erase(object); }

}  // namespace hvdray
