// SPDX-License-Identifier: Apache-2.0
#include "wire/announcement.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/text.h"

namespace hvdray::wire {
namespace {

constexpr std::string_view kMark = "HVDRAY-AGENT/1 ";
constexpr size_t kNonceBytes = 16;

bool IsLowerHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// "<pid> <nonce>", and nothing else.
std::optional<Announcement> ParseRest(std::string_view text) {
  Announcement result;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, result.pid);
  if (error != std::errc() || result.pid == 0 || stop == end || *stop != ' ') return std::nullopt;
  result.nonce.assign(stop + 1, end);
  if (result.nonce.size() != 2 * kNonceBytes ||
      !std::all_of(result.nonce.begin(), result.nonce.end(), IsLowerHex)) {
    return std::nullopt;
  }
  return result;
}

}  // namespace

std::string FormatAnnouncement(const Announcement& announcement) {
  return fmt::format("{}{} {}\n", kMark, announcement.pid, announcement.nonce);
}

Result<Announcement> MakeAnnouncement() {
  unsigned char bytes[kNonceBytes];
  ssize_t got = 0;
  do {
    got = ::getrandom(bytes, sizeof bytes, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof bytes)) return ErrnoStatus("getrandom", errno);
  Announcement result{static_cast<uint32_t>(::getpid()), {}};
  for (const unsigned char byte : bytes) result.nonce += fmt::format("{:02x}", byte);
  return result;
}

Result<AnnouncementScanner::Event> AnnouncementScanner::Next(ByteView& in) {
  if (is_announced_next_) {
    is_announced_next_ = false;
    return Event::kAnnounced;
  }
  const size_t newline = in.find('\n');
  const size_t taken = newline == ByteView::npos ? in.size() : newline + 1;
  seen_bytes_ += taken;
  if (seen_bytes_ > kMaxNoise) {
    return Status(ErrorCode::kProtocolError,
                  fmt::format("no agent announced itself within {} bytes", kMaxNoise));
  }
  line_.append(in.substr(0, std::min(newline, in.size())));
  in.remove_prefix(taken);
  if (newline == ByteView::npos) return Event::kNeedMore;

  std::string line = std::exchange(line_, {});
  const size_t mark = line.rfind(kMark);
  if (mark != std::string::npos) {
    if (auto parsed = ParseRest(std::string_view(line).substr(mark + kMark.size()))) {
      announcement_ = std::move(*parsed);
      if (mark == 0) return Event::kAnnounced;
      is_announced_next_ = true;
      line.resize(mark);
    }
  }
  if (line.ends_with('\r')) line.pop_back();
  noise_ = ShownLine(line);
  return Event::kNoise;
}

std::string AnnouncementScanner::unfinished() const { return ShownLine(line_); }

}  // namespace hvdray::wire
