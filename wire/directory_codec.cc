// SPDX-License-Identifier: Apache-2.0
#include "wire/directory_codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "wire/frame.h"

namespace hvdray::wire {
namespace {

constexpr uint16_t kMaxMode = 0777;
constexpr uint32_t kMaxNanoseconds = 999'999'999;
constexpr int64_t kMaxSeconds = int64_t{1} << 53;  // what JSON numbers hold everywhere
constexpr uint64_t kMaxFileBytes = INT64_MAX;
constexpr size_t kMaxStep = 256;
constexpr int32_t kMaxError = 4095;
// kind u8 | reserved u8 | mode u16 | mtime_ns u32 | size u64 | mtime_s i64 | path u16 | link u16
constexpr size_t kEntryBytes = 28;

Status Unsendable(std::string_view what) {
  return {ErrorCode::kInternal, fmt::format("cannot send {}", what)};
}

void PutU64(std::string& out, uint64_t value) {
  PutU32(out, static_cast<uint32_t>(value));
  PutU32(out, static_cast<uint32_t>(value >> 32));
}

uint64_t GetU64(const char* at) { return GetU32(at) | static_cast<uint64_t>(GetU32(at + 4)) << 32; }

bool IsText(std::string_view text) {
  return text.size() <= kMaxDirectoryPath && text.find('\0') == std::string_view::npos;
}

// The same rules for both directions: nothing is sent that would be refused.
const char* FaultOf(const DirectoryEntry& entry) {
  const bool is_link = entry.kind == DirectoryEntryKind::kLink;
  if (!IsPlainPath(entry.path)) return "a path that is absolute, empty, or has '.' or '..' in it";
  if (!IsText(entry.link) || entry.link.empty() == is_link) return "a link that is not as allowed";
  if (entry.mode > kMaxMode) return "a mode beyond 0777";
  if (entry.mtime_ns > kMaxNanoseconds) return "a time with too many nanoseconds";
  if (entry.mtime_s > kMaxSeconds || entry.mtime_s < -kMaxSeconds) return "a time out of range";
  if (entry.size > kMaxFileBytes) return "a size out of range";
  return nullptr;
}

// What is left of the raw bytes has to be exactly as long as was said.
Status TakeRest(MessageType type, uint32_t size, size_t limit, ByteView raw, std::string& out) {
  if (raw.size() != size) return Violation(type, "the raw bytes are not as many as said");
  if (raw.size() > limit) return Violation(type, fmt::format("over {} raw bytes", limit));
  out = raw;
  return {};
}

Status TakePath(MessageType type, uint32_t size, ByteView raw, std::string& out) {
  HVDRAY_RETURN_IF_ERROR(TakeRest(type, size, kMaxDirectoryPath, raw, out));
  return IsText(out) ? Status() : Violation(type, "a NUL in a path");
}

Status PackText(std::string_view text, std::string& raw) {
  if (!IsText(text)) return Unsendable("a path of over 4095 bytes, or with a NUL");
  raw += text;
  return {};
}

}  // namespace

bool IsPlainPath(std::string_view path) {
  if (!IsText(path)) return false;
  for (;;) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

std::string JsonOf(const DirectoryList& list) {
  return fmt::format(R"({{"folder":{},"target_bytes":{},"count":{}}})", list.directory,
                     list.target.size(), list.entries.size());
}

std::string JsonOf(const DirectoryWanted& wanted) {
  std::string ranges;
  for (const EntryRange& range : wanted.ranges) {
    ranges += fmt::format("{}[{},{}]", ranges.empty() ? "" : ",", range.first, range.count);
  }
  return fmt::format(R"({{"ranges":[{}],"links":{},"root_bytes":{}}})", ranges, wanted.links,
                     wanted.root.size());
}

std::string JsonOf(const File& file) {
  return fmt::format(
      R"({{"entry":{},"is_end":{},"is_restart":{},"mode":{},"mtime_s":{},"mtime_ns":{},"bytes":{}}})",
      file.entry, file.is_end, file.is_restart, file.mode, file.mtime_s, file.mtime_ns,
      file.bytes.size());
}

std::string JsonOf(const FileTaken& taken) {
  return fmt::format(R"({{"files":{},"bytes":{}}})", taken.files, taken.bytes);
}

std::string JsonOf(const DirectoryProblem& problem) {
  return DumpJson(
      {{"error", problem.error}, {"step", problem.step}, {"path_bytes", problem.path.size()}});
}

void ReadFields(FieldReader& read, const Json& /*json*/, DirectorySizes& sizes,
                DirectoryList& list) {
  read.Unsigned("folder", list.directory);
  read.Int("target_bytes", sizes.text, 0, kMaxDirectoryPath);
  read.Int("count", sizes.entries, 0, kMaxDirectoryEntries);
}

void ReadFields(FieldReader& read, const Json& /*json*/, DirectorySizes& sizes,
                DirectoryWanted& wanted) {
  read.Each("ranges", [&](const Json& element) {
    const auto is_index = [](const Json& number) {
      return number.is_number_unsigned() && number.get<uint64_t>() <= kMaxDirectoryEntries;
    };
    const bool is_whole = element.is_array() && element.size() >= 2 && is_index(element[0]) &&
                          is_index(element[1]) && wanted.ranges.size() < kMaxDirectoryEntries;
    if (!is_whole) return read.Fault("ranges");
    const EntryRange range{element[0].get<uint32_t>(), element[1].get<uint32_t>()};
    const uint32_t least =
        wanted.ranges.empty() ? 0 : wanted.ranges.back().first + wanted.ranges.back().count;
    if (range.count == 0 || range.first < least ||
        range.first + range.count > kMaxDirectoryEntries) {
      return read.Fault("ranges");
    }
    wanted.ranges.push_back(range);
  });
  read.Int("links", wanted.links, 0, kMaxDirectoryEntries);
  read.Int("root_bytes", sizes.text, 0, kMaxDirectoryPath);
}

void ReadFields(FieldReader& read, const Json& /*json*/, DirectorySizes& sizes, File& file) {
  read.Int("entry", file.entry, 0, kMaxDirectoryEntries - 1);
  read.Bool("is_end", file.is_end);
  read.Bool("is_restart", file.is_restart);
  if (file.is_end && file.is_restart) read.Fault("is_restart");
  read.Int("mode", file.mode, 0, kMaxMode);
  read.Int("mtime_s", file.mtime_s, -kMaxSeconds, kMaxSeconds);
  read.Int("mtime_ns", file.mtime_ns, 0, kMaxNanoseconds);
  read.Int("bytes", sizes.text, 0, kMaxFileChunk);
  if (file.is_restart && sizes.text > 0) read.Fault("bytes");
}

void ReadFields(FieldReader& read, const Json& /*json*/, DirectorySizes& /*sizes*/,
                FileTaken& taken) {
  read.Int("files", taken.files, 0, kMaxDirectoryEntries);
  read.Int("bytes", taken.bytes, 0, kDirectoryWindowBytes);
}

void ReadFields(FieldReader& read, const Json& /*json*/, DirectorySizes& sizes,
                DirectoryProblem& problem) {
  read.Int("error", problem.error, 0, kMaxError);
  read.Text("step", problem.step, kMaxStep);
  read.Int("path_bytes", sizes.text, 0, kMaxDirectoryPath);
}

Status PackRaw(const DirectoryList& list, std::string& raw) {
  if (list.entries.size() > kMaxDirectoryEntries) return Unsendable("so many entries at once");
  HVDRAY_RETURN_IF_ERROR(PackText(list.target, raw));
  for (const DirectoryEntry& entry : list.entries) {
    if (const char* fault = FaultOf(entry)) return Unsendable(fault);
    raw += static_cast<char>(entry.kind);
    raw += '\0';
    PutU16(raw, entry.mode);
    PutU32(raw, entry.mtime_ns);
    PutU64(raw, entry.size);
    PutU64(raw, static_cast<uint64_t>(entry.mtime_s));
    PutU16(raw, static_cast<uint16_t>(entry.path.size()));
    PutU16(raw, static_cast<uint16_t>(entry.link.size()));
    raw += entry.path;
    raw += entry.link;
  }
  return raw.size() <= kMaxDirectoryRaw ? Status() : Unsendable("a list of over 1 MiB");
}

Status PackRaw(const DirectoryWanted& wanted, std::string& raw) {
  return PackText(wanted.root, raw);
}

Status PackRaw(const File& file, std::string& raw) {
  if (file.bytes.size() > kMaxFileChunk) return Unsendable("over 64 KiB of a file at once");
  if (file.mode > kMaxMode || file.mtime_ns > kMaxNanoseconds || file.mtime_s > kMaxSeconds ||
      file.mtime_s < -kMaxSeconds || (file.is_restart && (file.is_end || !file.bytes.empty()))) {
    return Unsendable("a File with a value out of range");
  }
  raw = file.bytes;
  return {};
}

Status PackRaw(const DirectoryProblem& problem, std::string& raw) {
  return PackText(problem.path, raw);
}

Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, DirectoryList& list) {
  constexpr auto kType = MessageType::kDirectoryList;
  if (raw.size() > kMaxDirectoryRaw) return Violation(kType, "over 1 MiB of entries");
  if (sizes.text > raw.size()) return Violation(kType, "a target longer than the frame");
  list.target = raw.substr(0, sizes.text);
  raw.remove_prefix(sizes.text);
  if (!IsText(list.target)) return Violation(kType, "a target that is not as allowed");
  for (uint32_t i = 0; i < sizes.entries; ++i) {
    if (raw.size() < kEntryBytes) return Violation(kType, "fewer entries than counted");
    const char* at = raw.data();
    if (static_cast<uint8_t>(at[0]) > static_cast<uint8_t>(DirectoryEntryKind::kDirectoryMode) ||
        at[1] != 0) {
      return Violation(kType, "an entry of an unknown kind");
    }
    DirectoryEntry& entry = list.entries.emplace_back();
    entry.kind = static_cast<DirectoryEntryKind>(at[0]);
    entry.mode = GetU16(at + 2);
    entry.mtime_ns = GetU32(at + 4);
    entry.size = GetU64(at + 8);
    entry.mtime_s = static_cast<int64_t>(GetU64(at + 16));
    const size_t path = GetU16(at + 24);
    const size_t link = GetU16(at + 26);
    raw.remove_prefix(kEntryBytes);
    if (path + link > raw.size()) return Violation(kType, "a path longer than the frame");
    entry.path = raw.substr(0, path);
    entry.link = raw.substr(path, link);
    raw.remove_prefix(path + link);
    if (const char* fault = FaultOf(entry)) return Violation(kType, fault);
  }
  return raw.empty() ? Status() : Violation(kType, "bytes behind the entries");
}

Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, DirectoryWanted& wanted) {
  return TakePath(MessageType::kDirectoryWanted, sizes.text, raw, wanted.root);
}

Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, File& file) {
  return TakeRest(MessageType::kFile, sizes.text, kMaxFileChunk, raw, file.bytes);
}

Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, DirectoryProblem& problem) {
  return TakePath(MessageType::kDirectoryProblem, sizes.text, raw, problem.path);
}

}  // namespace hvdray::wire
