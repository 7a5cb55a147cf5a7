#include "launcher/job/discovered_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/shown_text.h"
#include "base/text.h"
#include "launcher/job/host_word.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

class DiscoveryParser {
 public:
  DiscoveryParser(std::optional<int> default_slots, std::string* warning)
      : default_slots_(default_slots), warning_(warning) {}

  Status AddLine(std::string_view text) {
    ++line_;
    if (text.empty()) return {};
    HostWord word;
    if (const auto fault = ParseHostWord(text, &word)) return Wrong(fault->message);
    std::optional<int> slots = default_slots_;
    if (word.slots) {
      if (word.slots->find(':') != std::string_view::npos) {
        return Wrong(fmt::format("'{}' has too many colons", ShownText(text)));
      }
      slots = ParseSlots(*word.slots);
      if (!slots) {
        return Wrong(fmt::format("slots '{}' of '{}' are not a number from 0 to {}",
                                 ShownText(*word.slots), ShownText(text), kMaxSlots));
      }
    }
    std::vector<HostSlots> named;
    if (const auto fault =
            AppendHosts(word, slots.value_or(0), kMaxHosts - hosts_.size(), &named)) {
      return Wrong(fault->message);
    }
    if (!slots) {
      return Wrong(fmt::format("host {} has no slots", named.front().host),
                   "let the script print host:slots, or give --slots-per-host");
    }
    for (HostSlots& host : named) Add(std::move(host));
    return {};
  }

  std::vector<HostSlots> Take() && { return std::move(hosts_); }

 private:
  Status Wrong(std::string_view what,
               std::string_view hint = "one host a line: 'node1' or 'node1:4'") const {
    return {ErrorCode::kSpecInvalid, fmt::format("line {}: {}", line_, what), std::string(hint)};
  }

  void Add(HostSlots host) {
    const auto [seen, is_new] = places_.try_emplace(host.host, hosts_.size(), line_);
    if (is_new) return hosts_.push_back(std::move(host));
    const auto& [index, first_line] = seen->second;
    if (hosts_[index] == host || !warning_->empty()) return;
    *warning_ = fmt::format(
        "the discovery script prints host {} twice, '{}' in line {} and '{}' in line {}: the first "
        "counts",
        host.host, HostText(hosts_[index]), first_line, HostText(host), line_);
  }

  const std::optional<int> default_slots_;
  std::string* warning_;
  size_t line_ = 0;
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, std::pair<size_t, size_t>> places_;  // index, line
};

}  // namespace

Result<std::vector<HostSlots>> ParseDiscoveredHosts(std::string_view text,
                                                    std::optional<int> default_slots,
                                                    std::string* warning) {
  warning->clear();
  DiscoveryParser parser(default_slots, warning);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    HVDRAY_RETURN_IF_ERROR(parser.AddLine(Trimmed(line)));
  }
  return std::move(parser).Take();
}

}  // namespace hvdray
