// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/worker_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvdray {
namespace {

constexpr std::string_view kEllipsis = "…";

}  // namespace

void LastLines::Feed(ByteView bytes) {
  if (bytes.size() > kKeptBytes) {
    // Earlier bytes can't be among the last lines; skipping them keeps large output cheap.
    bytes.remove_prefix(bytes.size() - kKeptBytes);
    open_.clear();
    is_cut_ = true;
    is_at_return_ = false;
  }
  while (!bytes.empty()) {
    const size_t stop = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (stop > 0 && is_at_return_) {
      open_.clear();
      is_cut_ = false;
      is_at_return_ = false;
    }
    const size_t room = kMaxLineBytes - std::min(open_.size(), kMaxLineBytes);
    open_.append(bytes.substr(0, std::min(stop, room)));
    is_cut_ = is_cut_ || stop > room;
    if (stop == bytes.size()) return;
    if (bytes[stop] == '\n') {
      EndLine();
    } else {
      is_at_return_ = true;
    }
    bytes.remove_prefix(stop + 1);
  }
}

void LastLines::EndLine() {
  if (is_cut_) open_ += kEllipsis;
  is_cut_ = false;
  is_at_return_ = false;
  if (open_.empty()) return;
  bytes_ += open_.size();
  lines_.push_back(std::move(open_));
  open_.clear();
  while (lines_.size() > kKeptLines || bytes_ > kKeptBytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

std::vector<std::string> LastLines::Kept() const {
  std::vector<std::string> lines(lines_.begin(), lines_.end());
  if (!open_.empty()) {
    lines.push_back(open_);
    if (is_cut_) lines.back() += kEllipsis;
  }
  return lines;
}

std::vector<std::string> LastLines::Lines() const {
  std::vector<std::string> lines = Kept();
  size_t first = lines.size();
  size_t bytes = 0;
  while (first > 0 && lines.size() - first < kMaxLines) {
    bytes += lines[first - 1].size();
    if (bytes > kMaxBytes) break;
    --first;
  }
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(first));
  return lines;
}

void LastLines::Clear() { *this = LastLines(); }

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

void LineTagger::RepeatTag(std::string_view stamp, std::string& out) const {
  out.append(stamp);
  // Horovod has no separator because its tag begins with '['.
  if (tag_.empty() && !stamp.empty()) out += ' ';
  out.append(tag_);
}

void LineTagger::BeginLine(std::string_view stamp, std::string& out) {
  if (!is_line_begun_) RepeatTag(stamp, out);
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
