// The -H option.
#include <fmt/format.h>

#include <string>
#include <unordered_map>

#include "base/shown_text.h"
#include "base/text.h"
#include "launcher/job/host_word.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

class HostListParser {
 public:
  Status AddItem(std::string_view text) {
    ++item_;
    HostWord word;
    if (const auto fault = ParseHostWord(text, &word)) return Wrong(text, fault->message);
    if (!word.slots || !IsAllDigits(*word.slots)) return NotHostAndSlots(text);
    if (!word.is_ipv6 && word.names.find('[') == std::string_view::npos &&
        !IsHostName(word.names)) {
      return NotHostAndSlots(text);
    }
    const std::optional<int> slots = ParseSlots(*word.slots);
    if (!slots) {
      return Wrong(
          text, fmt::format("slots={} is not within 0 to {}", ShownText(*word.slots), kMaxSlots));
    }
    size_t next = hosts_.size();
    if (const auto fault = AppendHosts(word, *slots, kMaxHosts - next, &hosts_)) {
      return Wrong(text, fault->message);
    }
    for (; next < hosts_.size(); ++next) HVDRAY_RETURN_IF_ERROR(CheckNew(hosts_[next]));
    return {};
  }

  std::vector<HostSlots> Take() && { return std::move(hosts_); }

 private:
  struct Seen {
    size_t item = 0;
    int slots = 0;
  };

  Status Wrong(std::string_view text, std::string_view what) const {
    return {ErrorCode::kSpecInvalid,
            fmt::format("item {} ('{}'): {}", item_, ShownText(text), what)};
  }

  Status NotHostAndSlots(std::string_view text) const {
    std::string hint = fmt::format("item {} is '{}'", item_, ShownText(text));
    if (text.find(':') != text.rfind(':')) {
      hint += "; a port is written ssh://host:port:slots, an IPv6 address [::1]:slots";
    }
    return {ErrorCode::kSpecInvalid,
            "Invalid host input, please make sure it has format as : worker-0:2,worker-1:2.",
            std::move(hint)};
  }

  Status CheckNew(const HostSlots& host) {
    const auto [seen, is_new] = seen_.emplace(host.host, Seen{item_, host.slots});
    if (is_new) return {};
    const Seen& first = seen->second;
    const std::string place = first.item == item_
                                  ? fmt::format("both times in item {}", item_)
                                  : fmt::format("items {} and {}", first.item, item_);
    return {ErrorCode::kSpecInvalid, fmt::format("host {} is listed twice: {}", host.host, place),
            fmt::format("add the slots up: {}:{}", host.host, first.slots + host.slots)};
  }

  size_t item_ = 0;
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, Seen> seen_;
};

}  // namespace

Result<std::vector<HostSlots>> ParseHostList(std::string_view list) {
  HostListParser parser;
  for (const std::string_view item : SplitHostItems(list)) {
    HVDRAY_RETURN_IF_ERROR(parser.AddItem(Trimmed(item)));
  }
  return std::move(parser).Take();
}

}  // namespace hvdray
