// SPDX-License-Identifier: Apache-2.0
#include "collective/async/timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <chrono>
#include <cstring>

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
  std::string name(NameOf(kind));
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

}  // namespace

Status Timeline::Start(const std::string& path, bool marks_cycles) {
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr) return {ErrorCode::kUsage, "the timeline has been started already"};
  file_.reset(std::fopen(path.c_str(), "we"));  // NOLINT(cppcoreguidelines-owning-memory)
  if (file_ == nullptr) {
    return {ErrorCode::kFileUnwritable, fmt::format("timeline {}: {}", path, std::strerror(errno))};
  }
  marks_cycles_ = marks_cycles;
  start_ = std::chrono::steady_clock::now();
  rows_.clear();
  const auto epoch = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  (void)std::fputs(fmt::format("[\n{{\"name\": \"clock\", \"ph\": \"M\", \"pid\": 0, \"args\": "
                               "{{\"start_time_since_epoch_in_micros\": {}}}}}",
                               epoch.count())
                       .c_str(),
                   file_.get());
  is_on_ = true;
  return {};
}

Status Timeline::Stop() {
  const std::lock_guard lock(mutex_);
  is_on_ = false;
  if (file_ == nullptr) return {};
  (void)std::fputs("\n]\n", file_.get());
  const bool is_whole = std::ferror(file_.get()) == 0;
  if (std::fclose(file_.release()) == 0 && is_whole) return {};
  return {ErrorCode::kFileUnwritable, "the timeline could not be written whole"};
}

Timeline::Row& Timeline::RowOf(const Request& request) {
  const auto [found, is_new] = rows_.try_emplace(request.name);
  if (is_new) {
    found->second.number = static_cast<int>(rows_.size());
    (void)std::fputs(
        fmt::format(",\n{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": {0}, \"args\": "
                    "{{\"name\": \"{1}\"}}}},\n{{\"name\": \"process_sort_index\", \"ph\": \"M\", "
                    "\"pid\": {0}, \"args\": {{\"sort_index\": {0}}}}}",
                    found->second.number, Escaped(request.name))
            .c_str(),
        file_.get());
  }
  return found->second;
}

void Timeline::Write(std::string_view phase, int row, std::string_view name,
                     std::string_view rest) {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start_);
  std::string event =
      fmt::format(",\n{{\"ph\": \"{}\", \"ts\": {}, \"pid\": {}", phase, time.count(), row);
  if (!name.empty()) event += fmt::format(", \"name\": \"{}\"", name);
  (void)std::fputs((event + std::string(rest) + "}").c_str(), file_.get());
}

void Timeline::Cycle() {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr && marks_cycles_) Write("i", 0, "CYCLE_START", ", \"s\": \"g\"");
}

void Timeline::Arrived(int rank, const Request& request) {
  if (!is_on() || request.kind == RequestKind::kJoin) return;
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  Row& row = RowOf(request);
  if (!row.is_negotiating) Write("B", row.number, "NEGOTIATE_" + EventOf(request.kind));
  row.is_negotiating = true;
  Write("X", row.number, std::to_string(rank), ", \"dur\": 0");
}

void Timeline::Begin(const Request& request) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  Row& row = RowOf(request);
  if (row.is_negotiating) Write("E", row.number, "");
  row.is_negotiating = false;
  Write("B", row.number, EventOf(request.kind));
}

void Timeline::BeginPart(const Request& request, std::string_view part) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr) Write("B", RowOf(request).number, part);
}

void Timeline::EndPart(const Request& request) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr) Write("E", RowOf(request).number, "");
}

void Timeline::End(const Request& request) {
  if (!is_on()) return;
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  Write("E", RowOf(request).number, "",
        fmt::format(", \"args\": {{\"dtype\": \"{}\", \"shape\": \"[{}]\"}}",
                    NameOfType(request.type), fmt::join(request.shape, ", ")));
  (void)std::fflush(file_.get());  // people and tests look at it while the job runs
}

}  // namespace hvdray
