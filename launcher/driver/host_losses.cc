#include "launcher/driver/host_losses.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "launcher/driver/host_list.h"

namespace hvdray {
namespace {

constexpr std::string_view kHost = "HOST";  // as hints have it
constexpr std::string_view kAddress = "ADDRESS";
constexpr std::string_view kContext = "host HOST: ";  // said by the list of hosts

bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

// ssh writes names in small letters. A domain behind the name is no part of it: it is the same for
// all hosts of a place.
bool StartsWithName(std::string_view text, std::string_view name) {
  if (name.empty() || text.size() < name.size()) return false;
  if (text.size() > name.size() && IsWordChar(text[name.size()])) return false;
  return std::equal(name.begin(), name.end(), text.begin(), [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  });
}

bool IsAddress(int family, std::string_view text) {
  in6_addr parsed;
  return ::inet_pton(family, std::string(text).c_str(), &parsed) == 1;
}

// Length of the IPv4 or IPv6 address that `text` begins with; 0: none. A port may follow.
size_t AddressLength(std::string_view text) {
  const size_t run = std::min(text.find_first_not_of("0123456789abcdefABCDEF.:"), text.size());
  const size_t end = text.substr(0, run).find_last_not_of(".:");
  if (end == std::string_view::npos) return 0;
  const std::string_view whole = text.substr(0, end + 1);
  if (IsAddress(AF_INET6, whole)) return whole.size();
  const std::string_view before_port = whole.substr(0, whole.find(':'));
  return IsAddress(AF_INET, before_port) ? before_port.size() : 0;
}

enum class Addresses : uint8_t { kKept, kMasked };

std::string Masked(std::string_view text, std::string_view name, Addresses addresses) {
  std::string masked;
  masked.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const size_t address = addresses == Addresses::kMasked ? AddressLength(rest) : 0;
    if (StartsWithName(rest, name)) {
      masked += kHost;
      at += name.size();
    } else if (address > 0) {
      masked += kAddress;
      at += address;
    } else {
      const auto word_end = std::find_if_not(rest.begin(), rest.end(), IsWordChar);
      const size_t length = std::max<size_t>(1, static_cast<size_t>(word_end - rest.begin()));
      masked += rest.substr(0, length);
      at += length;
    }
  }
  return masked;
}

struct Kind {
  Status why;        ///< Of its first host.
  std::string text;  ///< The message as all of them have it.
  std::vector<std::string> hosts;
};

Status ErrorOf(const Kind& kind) {
  const Status& why = kind.why;
  const std::string& first = kind.hosts.front();
  if (kind.hosts.size() == 1) return ErrorOfHost(first, why);
  std::string_view text = kind.text;
  if (text.starts_with(kContext)) text.remove_prefix(kContext.size());
  return {why.code(), fmt::format("hosts {}: {}", CompressHostList(kind.hosts), text),
          Masked(why.hint(), first, Addresses::kKept)};
}

HostLoss Others(std::span<Kind> kinds) {
  std::vector<std::string> hosts;
  for (Kind& kind : kinds) {
    hosts.insert(hosts.end(), std::make_move_iterator(kind.hosts.begin()),
                 std::make_move_iterator(kind.hosts.end()));
  }
  const std::string count =
      kinds.size() == 1 ? "another reason" : fmt::format("{} other reasons", kinds.size());
  Status error(kinds.front().why.code(),
               fmt::format("{} {}: lost for {}", hosts.size() == 1 ? "host" : "hosts",
                           CompressHostList(hosts), count),
               "--events FILE writes down each host's own");
  return {std::move(error), std::move(hosts)};
}

}  // namespace

std::vector<HostLoss> GroupLosses(std::span<const LostHost> lost, size_t max_kinds) {
  std::vector<Kind> kinds;
  std::map<std::pair<ErrorCode, std::string>, size_t> index;
  for (const LostHost& host : lost) {
    const std::string& message = host.why.message();
    std::string masked = Masked(message, host.name, Addresses::kMasked);
    std::string text = Masked(message, host.name, Addresses::kKept);
    const auto [it, is_new] = index.try_emplace({host.why.code(), masked}, kinds.size());
    if (is_new) kinds.push_back({.why = host.why, .text = text});
    Kind& kind = kinds[it->second];
    if (kind.text != text) kind.text = std::move(masked);
    kind.hosts.push_back(host.name);
  }
  std::vector<HostLoss> losses;
  const size_t named = std::min(kinds.size(), max_kinds);
  for (size_t i = 0; i < named; ++i) {
    Status error = ErrorOf(kinds[i]);
    losses.push_back({std::move(error), std::move(kinds[i].hosts)});
  }
  if (kinds.size() > named) losses.push_back(Others(std::span(kinds).subspan(named)));
  return losses;
}

Status ErrorOfHost(const std::string& name, const Status& why) {
  const bool is_named = why.message().find(name) != std::string::npos;
  return is_named ? why : Status(why).WithContext(fmt::format("host {}", name));
}

HostLoss SilentHosts(std::vector<std::string> hosts) {
  Status error(
      ErrorCode::kConnectTimeout,
      fmt::format("{} more had not answered yet: {}", hosts.size(), CompressHostList(hosts)),
      "the job ended before their time was up; they may be slow, or fail too");
  return {std::move(error), std::move(hosts)};
}

}  // namespace hvdray
