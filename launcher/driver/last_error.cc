// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/last_error.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace hvdray {
namespace {

// Lines of an exception's message to search: NCCL mentions the peer in the third.
constexpr size_t kMessageLines = 4;
// Without a traceback: lines that the program's own error handler may have printed.
constexpr size_t kTailLines = 6;
constexpr size_t kMaxTextBytes = 300;

constexpr std::string_view kTraceback = "Traceback (most recent call last)";
// Lines between the tracebacks of a chain; the first traceback is the origin.
constexpr std::array<std::string_view, 2> kChained = {"During handling of the above exception",
                                                      "The above exception was the direct cause"};
constexpr std::array<std::string_view, 2> kAborts = {"terminate called", "Fatal Python error:"};
// Tracebacks of these kinds come after the program's end.
constexpr std::array<std::string_view, 2> kAfterwards = {"Exception ignored", "Error in atexit"};

// An exception that only points to earlier lines: Horovod's, when hvd.init() fails.
constexpr std::string_view kSeeAbove = "check log messages above";

// What workers print when a peer is gone. Sources: Horovod 0.28.1 (common.h, exceptions.py), Gloo
// (transport/tcp/pair.cc), c10d (socket.cpp, TCPStore.cpp), NCCL (ncclGetErrorString, socket.cc).
constexpr std::array<std::string_view, 16> kPeerWords = {"Horovod has been shut down",
                                                         "Connection closed by peer",
                                                         "Connection reset by peer",
                                                         "Connection closed by remote peer",
                                                         "HorovodInternalError",
                                                         "gloo/transport/",
                                                         "ncclRemoteError",
                                                         "remote process exited",
                                                         "NCCL communicator was aborted",
                                                         "communicator was aborted",
                                                         "collective operation timeout",
                                                         "failed to recv, got 0 bytes",
                                                         "DistNetworkError",
                                                         "recvValue",
                                                         "Broken pipe",
                                                         "Socket Timeout"};

bool Has(std::string_view line, std::string_view words) {
  return line.find(words) != std::string_view::npos;
}

template <size_t n>
bool HasAny(std::string_view line, const std::array<std::string_view, n>& words) {
  return std::any_of(words.begin(), words.end(), [&](auto one) { return Has(line, one); });
}

std::string PeerWordsIn(std::span<const std::string> lines) {
  for (const std::string_view words : kPeerWords) {
    for (const std::string& line : lines) {
      if (Has(line, words)) return std::string(words);
    }
  }
  return {};
}

std::span<const std::string> TailOf(std::span<const std::string> lines) {
  return lines.last(std::min(lines.size(), kTailLines));
}

bool IsHeader(std::string_view line) { return Has(line, kTraceback) || HasAny(line, kAborts); }

// The start of the last error: the first traceback of its chain.
std::optional<size_t> BeginOfError(std::span<const std::string> lines) {
  std::optional<size_t> begin;
  bool is_afterwards = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (HasAny(lines[i], kChained)) {
      // Its beginning may no longer be kept.
      if (!begin) begin = 0;
      is_afterwards = true;
      continue;
    }
    if (HasAny(lines[i], kAfterwards)) is_afterwards = begin.has_value();
    if (!IsHeader(lines[i])) continue;
    const bool is_abort = !Has(lines[i], kTraceback);
    // An abort that follows a traceback is its consequence.
    if (!std::exchange(is_afterwards, false) && !(is_abort && begin)) begin = i;
  }
  return begin;
}

// "[rank1]: ", torch's own hook writes this before each line.
std::string_view PrefixOf(std::string_view header) {
  const size_t at = header.find(kTraceback);
  return at == std::string_view::npos ? std::string_view() : header.substr(0, at);
}

std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return std::string(text);
  size_t end = kMaxTextBytes;
  // Not in the middle of a UTF-8 sequence.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace

LastError ReadLastError(std::span<const std::string> lines) {
  const std::optional<size_t> begin = BeginOfError(lines);
  if (!begin) {
    return {.text = {}, .peer_words = PeerWordsIn(TailOf(lines))};
  }
  const std::string_view prefix = PrefixOf(lines[*begin]);
  const bool is_abort = HasAny(lines[*begin], kAborts);
  size_t at = *begin + 1;
  if (is_abort || !IsHeader(lines[*begin])) at = *begin;
  // Frames are indented; the exception is not.
  const auto is_frame = [&](std::string_view line) {
    if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    return line.starts_with(' ');
  };
  while (at < lines.size() && is_frame(lines[at])) ++at;
  if (at == lines.size()) return {};  // It is still being written.
  size_t end = at + 1;
  while (end < lines.size() && end < at + kMessageLines && !IsHeader(lines[end]) &&
         !HasAny(lines[end], kChained)) {
    ++end;
  }
  std::string_view text = lines[at];
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  std::string peer_words = PeerWordsIn(lines.subspan(at, end - at));
  if (peer_words.empty() && Has(text, kSeeAbove))
    peer_words = PeerWordsIn(TailOf(lines.first(*begin)));
  return {.text = Shortened(text), .peer_words = std::move(peer_words)};
}

LastError ReadRecordedError(std::string_view message) {
  const std::string text(message);
  return {.text = Shortened(text.substr(0, text.find('\n'))),
          .peer_words = PeerWordsIn({&text, 1})};
}

}  // namespace hvdray
