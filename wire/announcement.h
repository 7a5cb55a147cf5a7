// SPDX-License-Identifier: Apache-2.0
// The line by which an agent announces that frames follow, and the scanner that finds it after the
// output of a login shell. Pure, except that MakeAnnouncement() draws random bytes.
#ifndef HVDRAY_WIRE_ANNOUNCEMENT_H_
#define HVDRAY_WIRE_ANNOUNCEMENT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray::wire {

/// Largest number of bytes up to the end of the announcement.
inline constexpr size_t kMaxNoise = size_t{64} << 10;

struct Announcement {
  uint32_t pid = 0;
  std::string nonce;  ///< 32 lower-case hexadecimal digits, different for each start.
  bool operator==(const Announcement&) const = default;
};

/// "HVDRAY-AGENT/1 <pid> <nonce>\n"
std::string FormatAnnouncement(const Announcement& announcement);
/// Returns an announcement with this process's pid and 16 random bytes. Errors: kSystem.
Result<Announcement> MakeAnnouncement();

/// Reads input up to the end of the announcement. A banner without a newline may precede it on the
/// same line. Threads: one.
/// Source: mosh scripts/mosh.pl, which waits for "MOSH CONNECT" in the same way.
class AnnouncementScanner {
 public:
  enum class Event : uint8_t { kNeedMore, kNoise, kAnnounced };

  /// Removes bytes from the front of `in` up to the next event. Errors: kProtocolError beyond
  /// kMaxNoise bytes.
  Result<Event> Next(ByteView& in);
  /// After kNoise: the line without its ending, cleaned by ShownLine(). Valid until the next call.
  const std::string& noise() const { return noise_; }
  /// After kAnnounced.
  const Announcement& announcement() const { return announcement_; }
  /// The start of a line whose end has not arrived: the last output of a peer that closed.
  std::string unfinished() const;

 private:
  size_t seen_bytes_ = 0;
  std::string line_;
  std::string noise_;
  Announcement announcement_;
  bool is_announced_next_ = false;  // after the noise that preceded it on its line
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_ANNOUNCEMENT_H_
