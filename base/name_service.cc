// SPDX-License-Identifier: Apache-2.0
#include "base/name_service.h"

#include <fmt/format.h>
#include <pwd.h>

#include <array>
#include <chrono>
#include <vector>

#include "base/getent.h"
#include "base/text.h"

namespace hvdray {
namespace {

Result<AddressList> AskLibrary(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &found);
  if (error != 0) return Status(ErrorCode::kUnknownHost, ::gai_strerror(error));
  return AddressList(found);
}

#ifdef HVDRAY_STATIC
constexpr Duration kLimit = std::chrono::seconds(30);

std::optional<UserEntry> FindUserByGetent(const std::string& key) {
  const auto lines = AskGetent("passwd", key, kLimit);
  if (!lines.ok() || lines->empty()) return std::nullopt;
  std::vector<std::string> fields(1);  // name:password:uid:gid:comment:home:shell
  for (const char c : lines->front()) {
    if (c == ':') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (fields.size() < 6) return std::nullopt;
  return UserEntry{fields[0], fields[5]};
}
#else
/// `fill` fills an entry, as getpwnam_r() does.
template <typename Fill>
std::optional<UserEntry> UserBy(const Fill& fill) {
  std::array<char, 16384> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (fill(&entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return UserEntry{found->pw_name, found->pw_dir};
}
#endif

}  // namespace

/// One by one: they may come from several calls.
void FreeAddresses::operator()(addrinfo* list) const {
  while (list != nullptr) {
    addrinfo* next = list->ai_next;
    list->ai_next = nullptr;
    ::freeaddrinfo(list);
    list = next;
  }
}

Result<AddressList> ParseHost(const std::string& host, uint16_t port) {
  return AskLibrary(host, port, AI_NUMERICHOST);
}

#ifdef HVDRAY_STATIC
Result<AddressList> FindHost(const std::string& host, uint16_t port) {
  if (Result<AddressList> parsed = ParseHost(host, port); parsed.ok()) return parsed;
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<std::string> texts, AddressesByGetent(host, kLimit));
  addrinfo* first = nullptr;
  addrinfo** end = &first;
  for (const std::string& text : texts) {
    Result<AddressList> address = ParseHost(text, port);
    if (!address.ok()) continue;
    *end = address->release();
    end = &(*end)->ai_next;
  }
  if (first == nullptr) return Status(ErrorCode::kUnknownHost, ::gai_strerror(EAI_NONAME));
  return AddressList(first);
}

std::optional<UserEntry> FindUser(const std::string& name) {
  std::optional<UserEntry> entry = FindUserByGetent(name);
  // getent takes a number for a user's id.
  if (entry && Lower(entry->name) != Lower(name)) return std::nullopt;
  return entry;
}
std::optional<UserEntry> FindUser(uid_t id) { return FindUserByGetent(fmt::format("{}", id)); }
#else
Result<AddressList> FindHost(const std::string& host, uint16_t port) {
  return AskLibrary(host, port, 0);
}

std::optional<UserEntry> FindUser(const std::string& name) {
  return UserBy([&](auto... to) { return ::getpwnam_r(name.c_str(), to...); });
}
std::optional<UserEntry> FindUser(uid_t id) {
  return UserBy([&](auto... to) { return ::getpwuid_r(id, to...); });
}
#endif

}  // namespace hvdray
