// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_error.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "wire/message.h"

namespace hvdray {
namespace {

constexpr std::array<std::string_view, 3> kFirstLines = {"Traceback (most recent call last)",
                                                         "terminate called", "Fatal Python error:"};
constexpr size_t kTailBytes = 40;  // No first line is longer.
// Python writes the tracebacks of a chain at once; a later one is another error.
constexpr Duration kLongestChain = std::chrono::seconds(1);

bool HasFirstLine(std::string_view text) {
  return std::any_of(kFirstLines.begin(), kFirstLines.end(), [text](std::string_view line) {
    return text.find(line) != std::string_view::npos;
  });
}

constexpr size_t kReadLimitBytes = size_t{256} << 10;  // torch adds the call stack.

// Reads torch's {"message": {"message": "ValueError: …", "extraInfo": {…}}} or {"message": "…"};
// returns any other text as it is.
std::string MessageOf(const std::string& text) {
  const Result<Json> json = ParseJson(text, kReadLimitBytes);
  if (!json.ok() || !json->is_object()) return text;
  const auto outer = json->find("message");
  if (outer == json->end()) return text;
  if (outer->is_string()) return outer->get<std::string>();
  const auto inner = outer->is_object() ? outer->find("message") : outer->end();
  if (inner == outer->end() || !inner->is_string() || *inner == "") return text;
  return inner->get<std::string>();
}

std::string WellFormed(std::string_view text) {
  std::string whole;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (whole.size() + std::max<size_t>(length, 1) > wire::kMaxRecordedError) break;
    whole += length == 0 ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return whole;
}

}  // namespace

void ErrorClock::Feed(ByteView bytes, TimePoint now) {
  const std::string_view head = bytes.substr(0, kTailBytes);
  const bool is_found = HasFirstLine(bytes) || HasFirstLine(tail_ + std::string(head));
  tail_ = (bytes.size() < kTailBytes ? tail_ : std::string()) +
          std::string(bytes.substr(bytes.size() - std::min(bytes.size(), kTailBytes)));
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  if (!is_found) return;
  // A line found at the join must not be found again with the next bytes.
  if (HasFirstLine(tail_)) tail_.clear();
  if (!erred_ || now - last_ > kLongestChain) erred_ = now;
  last_ = now;
}

Result<ErrorFile> ErrorFile::Make() {
  UniqueFd fd(::memfd_create("hvdray-worker-error", MFD_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus("memfd_create", errno);
  return ErrorFile(std::move(fd));
}

std::string ErrorFile::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get()); }

std::optional<ErrorFile::Record> ErrorFile::Read() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0 || info.st_size <= 0) return std::nullopt;
  std::string text(std::min(static_cast<size_t>(info.st_size), kReadLimitBytes), '\0');
  const ssize_t n = ::pread(fd_.get(), text.data(), text.size(), 0);
  if (n <= 0) return std::nullopt;
  text.resize(static_cast<size_t>(n));
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto age = std::chrono::seconds(now.tv_sec - info.st_mtim.tv_sec) +
                   std::chrono::nanoseconds(now.tv_nsec - info.st_mtim.tv_nsec);
  return Record{WellFormed(MessageOf(text)), std::max<Duration>(age, Duration::zero())};
}

}  // namespace hvdray
