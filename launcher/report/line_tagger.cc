// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/line_tagger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvdray {
namespace {

// Limits the capacity kept after long lines, since every stream has its own buffer.
constexpr size_t kKeptCapacity = size_t{4} << 10;

const char* Find(char wanted, const char* from, const char* end) {
  const void* found = std::memchr(from, wanted, static_cast<size_t>(end - from));
  return found != nullptr ? static_cast<const char*>(found) : end;
}

}  // namespace

std::string TagText(TagOutput mode, int rank, std::string_view host, wire::StreamId stream) {
  const std::string_view name = stream == wire::StreamId::kStderr ? "stderr" : "stdout";
  switch (mode) {
    case TagOutput::kRank:
      return fmt::format("[{}]<{}>:", rank, name);
    case TagOutput::kHost:
      return fmt::format("[{}:{}]<{}>:", host, rank, name);
    case TagOutput::kNone:
      break;
  }
  return {};
}

std::string StampText(const std::tm& local_time) {
  char text[64];
  // Not asctime(): it uses a static buffer.
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto end = fmt::format_to_n(text, sizeof text, "{} {}{:3d} {:02d}:{:02d}:{:02d} {}",
                                    kDays[local_time.tm_wday % 7], kMonths[local_time.tm_mon % 12],
                                    local_time.tm_mday, local_time.tm_hour, local_time.tm_min,
                                    local_time.tm_sec, local_time.tm_year + 1900);
  return std::string(text, std::min(end.size, sizeof text));
}

void LineTagger::BeginLine(std::string_view stamp, std::string& out) {
  if (!is_line_begun_) {
    out.append(stamp);
    // Horovod has no separator because its tag begins with '['.
    if (tag_.empty() && !stamp.empty()) out += ' ';
    out.append(tag_);
  }
  if (!held_.empty()) {
    out.append(held_);
    held_.clear();
    if (held_.capacity() > kKeptCapacity) held_.shrink_to_fit();
  }
}

void LineTagger::Feed(ByteView bytes, std::string_view stamp, std::string& out) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  // Searches for each again only after passing it, so the search stays linear.
  const char* newline = Find('\n', at, end);
  const char* carriage_return = Find('\r', at, end);
  while (std::min(newline, carriage_return) != end) {
    const char* const line_end = std::min(newline, carriage_return) + 1;
    BeginLine(stamp, out);
    out.append(at, static_cast<size_t>(line_end - at));
    is_line_begun_ = false;
    at = line_end;
    if (newline < at) newline = Find('\n', at, end);
    if (carriage_return < at) carriage_return = Find('\r', at, end);
  }
  const auto rest = static_cast<size_t>(end - at);
  if (held_.size() + rest <= kMaxHeldLine) {
    held_.append(at, rest);
    return;
  }
  BeginLine(stamp, out);
  is_line_begun_ = true;
  out.append(at, rest);
}

void LineTagger::PassHeld(std::string_view stamp, std::string& out) {
  if (held_.empty()) return;
  BeginLine(stamp, out);
  is_line_begun_ = true;
}

bool LineTagger::Finish(std::string_view stamp, std::string& out) {
  PassHeld(stamp, out);
  return std::exchange(is_line_begun_, false);
}

}  // namespace hvdray
