#include "cluster/host_news.h"

#include <algorithm>
#include <utility>

namespace hvdray {

bool HostNews::IsNews(const std::vector<HostSlots>& hosts) {
  std::vector<HostSlots> sorted = hosts;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const HostSlots& a, const HostSlots& b) { return a.host < b.host; });
  const bool has_recovered = !std::exchange(failure_, Status()).ok();
  if (hosts_ == sorted) return has_recovered;
  hosts_ = std::move(sorted);
  return true;
}

bool HostNews::IsNews(const Status& failure) {
  if (failure_ == failure) return false;
  failure_ = failure;
  return true;
}

bool HostNews::IsNewWarning(const std::string& warning) {
  return std::exchange(warning_, warning) != warning && !warning.empty();
}

}  // namespace hvdray
