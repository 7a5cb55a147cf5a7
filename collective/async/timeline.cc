// SPDX-License-Identifier: Apache-2.0
#include "collective/async/timeline.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/file.h"

namespace hvdray {
namespace {

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string EventOf(RequestKind kind) {
  std::string name(Name(kind));
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

}  // namespace

Status Timeline::Start(const std::string& path, bool marks_cycles) {
  const std::lock_guard lock(mutex_);
  if (file_.is_valid()) return {ErrorCode::kUsage, "the timeline has been started already"};
  Result<UniqueFd> file = OpenForWriting(path);
  if (!file.ok()) return std::move(file).status().WithContext("timeline");
  file_ = std::move(*file);
  marks_cycles_ = marks_cycles;
  start_ = std::chrono::steady_clock::now();
  rows_.clear();
  written_ = 0;
  is_damaged_ = false;
  const auto epoch = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  unwritten_ = fmt::format(
      "[\n{{\"name\": \"clock\", \"ph\": \"M\", \"pid\": 0, \"args\": "
      "{{\"start_time_since_epoch_in_micros\": {}}}}}",
      epoch.count());
  WriteOut();
  is_on_ = true;
  return {};
}

Status Timeline::Stop() {
  const std::lock_guard lock(mutex_);
  is_on_ = false;
  if (!file_.is_valid()) return {};
  WriteOut();
  file_.Reset();
  if (!is_damaged_) return {};
  return {ErrorCode::kFileUnwritable, "the timeline could not be written whole"};
}

// In one call, which no signal divides.
void Timeline::WriteOut() {
  const size_t size = unwritten_.size();
  unwritten_ += "\n]\n";
  const ssize_t done = ::pwrite(file_.get(), unwritten_.data(), unwritten_.size(), written_);
  is_damaged_ |= done != static_cast<ssize_t>(unwritten_.size());
  written_ += static_cast<off_t>(size);
  unwritten_.clear();
}

Timeline::Row& Timeline::RowOf(const Request& request) {
  const auto [found, is_new] = rows_.try_emplace(request.name);
  if (is_new) {
    found->second.number = static_cast<int>(rows_.size());
    unwritten_ += fmt::format(
        ",\n{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": {0}, \"args\": "
        "{{\"name\": \"{1}\"}}}},\n{{\"name\": \"process_sort_index\", \"ph\": \"M\", "
        "\"pid\": {0}, \"args\": {{\"sort_index\": {0}}}}}",
        found->second.number, Escaped(request.name));
  }
  return found->second;
}

void Timeline::Write(std::string_view phase, int row, std::string_view name,
                     std::string_view rest) {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start_);
  unwritten_ +=
      fmt::format(",\n{{\"ph\": \"{}\", \"ts\": {}, \"pid\": {}", phase, time.count(), row);
  if (!name.empty()) unwritten_ += fmt::format(", \"name\": \"{}\"", name);
  unwritten_.append(rest).append("}");
}

void Timeline::Cycle() {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_.is_valid() && marks_cycles_) Write("i", 0, "CYCLE_START", ", \"s\": \"g\"");
}

void Timeline::Arrived(int rank, const Request& request) {
  if (!is_on() || request.kind == RequestKind::kJoin) return;
  const std::lock_guard lock(mutex_);
  if (!file_.is_valid()) return;
  Row& row = RowOf(request);
  if (!row.is_negotiating) Write("B", row.number, "NEGOTIATE_" + EventOf(request.kind));
  row.is_negotiating = true;
  Write("X", row.number, std::to_string(rank), ", \"dur\": 0");
}

void Timeline::Begin(const Request& request) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (!file_.is_valid()) return;
  Row& row = RowOf(request);
  if (row.is_negotiating) Write("E", row.number, "");
  row.is_negotiating = false;
  Write("B", row.number, EventOf(request.kind));
}

void Timeline::BeginPart(const Request& request, std::string_view part) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_.is_valid()) Write("B", RowOf(request).number, part);
}

void Timeline::EndPart(const Request& request) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_.is_valid()) Write("E", RowOf(request).number, "");
}

void Timeline::End(const Request& request) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (!file_.is_valid()) return;
  Write("E", RowOf(request).number, "",
        fmt::format(", \"args\": {{\"dtype\": \"{}\", \"shape\": \"[{}]\"}}",
                    NameOfType(request.type), fmt::join(request.shape, ", ")));
  WriteOut();  // people and tests look at it while the job runs
}

void Timeline::Flush() {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_.is_valid() && !unwritten_.empty()) WriteOut();
}

}  // namespace hvdray
