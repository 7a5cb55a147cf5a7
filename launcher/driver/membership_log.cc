// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/membership_log.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "launcher/job/hostfile.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

std::string Deed(const HostChange& change) {
  if (change.workers == 0) return "continued with new workers";
  return fmt::format("{} with {}", change.workers > 0 ? "joined" : "left",
                     std::abs(change.workers));
}

}  // namespace

void MembershipLog::NoteLeaving(const std::string& host, std::string why) {
  if (reasons_.empty()) first_host_ = host;
  if (!reasons_.contains(host)) reasons_[host] = std::move(why);
}

void MembershipLog::NoteStandstill(TimePoint now) {
  if (!still_since_) still_since_ = now;
}

std::string MembershipLog::FirstReason() const {
  const auto it = reasons_.find(first_host_);
  return it == reasons_.end() ? "" : fmt::format("{}: {}", it->first, it->second);
}

effect::MembershipChanged MembershipLog::Close(effect::MembershipChanged change, TimePoint now) {
  for (HostChange& host : change.changes) {
    const auto it = reasons_.find(host.host);
    if (it == reasons_.end()) continue;
    host.why = it->second;
    reasons_.erase(it);
  }
  for (auto& [host, why] : reasons_) change.changes.push_back({host, 0, std::move(why)});
  change.stood_still = still_since_ ? now - *still_since_ : Duration::zero();
  reasons_.clear();
  still_since_.reset();
  return change;
}

std::string MembershipLine(const effect::MembershipChanged& change) {
  std::vector<std::pair<HostChange, std::vector<std::string>>> groups;
  for (const HostChange& host : change.changes) {
    auto it = groups.begin();
    while (it != groups.end() && (it->first.workers != host.workers || it->first.why != host.why)) {
      ++it;
    }
    if (it == groups.end()) it = groups.insert(it, {host, {}});
    it->second.push_back(host.host);
  }
  std::string text = fmt::format("generation {}: {} worker{}", change.generation, change.size,
                                 change.size == 1 ? "" : "s");
  for (const auto& [deed, hosts] : groups) {
    text += fmt::format("; host{} {} {}{}", hosts.size() == 1 ? "" : "s", CompressHostList(hosts),
                        Deed(deed), hosts.size() == 1 ? "" : " each");
    if (!deed.why.empty()) text += ": " + deed.why;
  }
  if (change.stood_still > Duration::zero()) {
    text += fmt::format("; paused for {}", ShowDuration(change.stood_still));
  }
  return text;
}

}  // namespace hvdray
