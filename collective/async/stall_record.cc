// SPDX-License-Identifier: Apache-2.0
#include "collective/async/stall_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/fd.h"

namespace hvdray {
namespace {

constexpr size_t kMostNames = 3;

}  // namespace

StallRecord::StallRecord(std::string path)
    : path_(path.starts_with("/proc/") ? std::move(path) : std::string()) {}

void StallRecord::Keep(std::span<const std::string> names, Duration longest) {
  if (path_.empty() || (names.empty() && written_.empty())) return;
  const UniqueFd file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_valid()) return;
  std::array<char, 1024> there{};
  const ssize_t size = ::read(file.get(), there.data(), there.size());
  if (size < 0 || std::string_view(there.data(), static_cast<size_t>(size)) != written_) return;
  written_.clear();
  if (!names.empty()) {
    // The first words are those that the launcher knows it by (launcher/driver/last_error.h).
    written_ = fmt::format(
        "stalled: never submitted {}{}, for which others waited {} s",
        fmt::join(names.first(std::min(names.size(), kMostNames)), ", "),
        names.size() > kMostNames ? fmt::format(" and {} more", names.size() - kMostNames) : "",
        std::chrono::duration_cast<std::chrono::seconds>(longest).count());
    if (written_.size() > there.size()) written_.resize(there.size());
  }
  (void)!::ftruncate(file.get(), 0);
  (void)!::pwrite(file.get(), written_.data(), written_.size(), 0);
}

}  // namespace hvdray
