// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/record_file.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace hvdray {

std::string FormatRecordHeader(RecordKind kind, size_t length) {
  std::string header(1, static_cast<char>(kind));
  for (int shift = 0; shift < 32; shift += 8) {
    header += static_cast<char>((length >> shift) & 0xff);
  }
  return header;
}

int AppendRecord(int fd, RecordKind kind, ByteView bytes, ByteView places) {
  std::string header;
  if (!places.empty()) {
    header = FormatRecordHeader(RecordKind::kPlaces, places.size());
    header.append(places);
  }
  header += FormatRecordHeader(kind, bytes.size());
  const off_t begin = ::lseek(fd, 0, SEEK_END);
  if (begin < 0) return errno;
  size_t written = 0;
  while (written < header.size() + bytes.size()) {
    std::array<iovec, 2> parts{};
    const size_t of_header = std::min(written, header.size());
    const size_t of_bytes = written - of_header;
    parts[0] = {header.data() + of_header, header.size() - of_header};
    // writev() only reads through the pointer.
    parts[1] = {const_cast<char*>(bytes.data()) + of_bytes, bytes.size() - of_bytes};
    const ssize_t n = ::writev(fd, parts.data(), static_cast<int>(parts.size()));
    if (n >= 0) {
      written += static_cast<size_t>(n);
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (::ftruncate(fd, begin) == 0) ::lseek(fd, begin, SEEK_SET);
    return error;
  }
  return 0;
}

}  // namespace hvdray
