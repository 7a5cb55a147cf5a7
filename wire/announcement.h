// SPDX-License-Identifier: Apache-2.0
// The line with which an agent says that frames follow, and how a launcher finds it behind what a
// login shell prints. Pure but for the random number of the nonce.
#ifndef HVDRAY_WIRE_ANNOUNCEMENT_H_
#define HVDRAY_WIRE_ANNOUNCEMENT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray::wire {

/// Most bytes that may come before the announcement has ended.
inline constexpr size_t kMaxNoise = size_t{64} << 10;

struct Announcement {
  uint32_t pid = 0;
  std::string nonce;  ///< 32 lower-case hexadecimal digits: tells two starts of an agent apart.
  bool operator==(const Announcement&) const = default;
};

/// "HVDRAY-AGENT/1 <pid> <nonce>\n"
std::string FormatAnnouncement(const Announcement& announcement);
/// With this process's pid and 16 random bytes. Errors: kSystem.
Result<Announcement> MakeAnnouncement();

/// Reads bytes up to and with the announcement. A banner that ends without a newline may stand
/// before it in the same line.
/// Source: mosh scripts/mosh.pl, which waits for "MOSH CONNECT" in the same way.
class AnnouncementScanner {
 public:
  enum class Event : uint8_t { kNeedMore, kNoise, kAnnounced };

  /// Takes bytes off the front of `in` up to the next event. Errors: kProtocolError above
  /// kMaxNoise.
  Result<Event> Next(ByteView& in);
  /// Of kNoise: the line without its end, as ShownLine() has it. Valid until the next call.
  const std::string& noise() const { return noise_; }
  /// Of kAnnounced.
  const Announcement& announcement() const { return announcement_; }
  /// What has come of a line that has no end yet: the last words of a peer that closed.
  std::string unfinished() const;

 private:
  size_t seen_bytes_ = 0;
  std::string line_;
  std::string noise_;
  Announcement announcement_;
  bool is_announced_next_ = false;  // the noise before it in its line was given out first
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_ANNOUNCEMENT_H_
