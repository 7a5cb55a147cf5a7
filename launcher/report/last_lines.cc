// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/last_lines.h"

#include <algorithm>

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

}  // namespace hvdray
