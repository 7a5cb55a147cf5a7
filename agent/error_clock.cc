#include "agent/error_clock.h"

#include <algorithm>
#include <array>

namespace hvdray {
namespace {

constexpr std::array<std::string_view, 3> kFirstLines = {"Traceback (most recent call last)",
                                                         "terminate called", "Fatal Python error:"};
constexpr size_t kTailBytes = 40;  // no first line is longer
// Python writes the tracebacks of a chain at once. What comes later is another error.
constexpr Duration kLongestChain = std::chrono::seconds(1);

bool HasFirstLine(std::string_view text) {
  return std::any_of(kFirstLines.begin(), kFirstLines.end(), [text](std::string_view line) {
    return text.find(line) != std::string_view::npos;
  });
}

}  // namespace

void ErrorClock::Feed(ByteView bytes, TimePoint now) {
  const std::string_view head = bytes.substr(0, kTailBytes);
  const bool is_found = HasFirstLine(bytes) || HasFirstLine(tail_ + std::string(head));
  tail_ = (bytes.size() < kTailBytes ? tail_ : std::string()) +
          std::string(bytes.substr(bytes.size() - std::min(bytes.size(), kTailBytes)));
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  if (!is_found) return;
  // One that is at the join is not to be found again with the bytes that follow.
  if (HasFirstLine(tail_)) tail_.clear();
  if (!erred_ || now - last_ > kLongestChain) erred_ = now;
  last_ = now;
}

}  // namespace hvdray
